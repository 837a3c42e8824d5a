"""The whole configuration, a section for each part of a run."""

from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializeAsAny, ValidationInfo, create_model, field_validator, model_validator

from kartrl.config.algorithms import ALGORITHMS, Algorithm, AlgorithmSection
from kartrl.config.chosen import is_auto
from kartrl.config.cluster import Cluster
from kartrl.config.environment import Environment
from kartrl.config.levels import Levels
from kartrl.config.replay import SCHEDULED, Clear, Drawn, Laser, Replay
from kartrl.config.schedule import Schedule
from kartrl.config.section import Section
from kartrl.config.sections import Evaluation, Model, Optimizer, Run, System
from kartrl.config.worlds import WorldSections, WorldSettings, settings_of


class _UpToAlgorithm(Section):
    run: Run = Run()
    system: System = System()
    cluster: Cluster = Cluster()
    environment: Environment = Environment()
    world: SerializeAsAny[WorldSections] = Field({}, validate_default=True)
    levels: Levels = Field({}, validate_default=True)
    model: Model = Model()
    algorithm: Algorithm = Algorithm()


if TYPE_CHECKING:
    _WithAlgorithms = _UpToAlgorithm
else:
    _sections = {name: (section, section()) for name, section in ALGORITHMS.items()}
    _WithAlgorithms = create_model("_WithAlgorithms", __base__=_UpToAlgorithm, **_sections)


class Config(_WithAlgorithms):
    """The whole configuration.

    Each algorithm's section has its name in `ALGORITHMS`. `world` has the sections that the world of `environment.id`
    brings, `levels` the keys of its levels.
    """

    replay: Replay = Replay()
    clear: Clear = Clear()
    laser: Laser = Laser()
    optimizer: Optimizer = Optimizer()
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_its_world(cls, values: Any) -> Any:
        """Where its world has other defaults of a shared section, these; a section that is whole stays as it is."""
        environment = dict(values.get("environment", {})).get("id", Environment().id)
        for name, keys in settings_of(environment).defaults.items():
            if not isinstance(given := values.get(name, {}), Section):
                values = values | {name: {**keys, **given}}
        return values

    @field_validator("world", mode="before")
    @classmethod
    def _sections_of_its_world(cls, value: Any, info: ValidationInfo) -> Any:
        return value if isinstance(value, WorldSections) else _world(info).sections.model_validate(value)

    @field_validator("levels", mode="before")
    @classmethod
    def _levels_of_its_world(cls, value: Any, info: ValidationInfo) -> Any:
        syntax = _world(info).levels
        return value if syntax is None or isinstance(value, Levels) else {"uses": syntax.complete(value)}

    @property
    def sections(self) -> dict[str, Section]:
        """All sections except [levels], by name, in the order of the file."""
        found: dict[str, Section] = {}
        for name, section in self:
            found |= dict(section) if name == "world" else {} if name == "levels" else {name: section}
        return found

    def replaced(self, **sections: Section | Levels) -> "Config":
        """The configuration with these sections, by name, in place of its own."""
        own = {name: section for name, section in sections.items() if name in type(self.world).model_fields}
        others = {name: section for name, section in sections.items() if name not in own}
        return self.model_copy(update={"world": self.world.model_copy(update=own)} | others)

    @property
    def replays(self) -> tuple[Drawn, ...]:
        """The replays that the algorithm learns from, in addition to the queue of fresh unrolls."""
        if not self.own.alternates:
            return self.replay.drawn("none")
        return self.replay.drawn("uniform") if self.own.replayed_updates else ()

    @property
    def own(self) -> AlgorithmSection:
        """The section of the algorithm that learns."""
        section: AlgorithmSection = getattr(self, self.algorithm.name)
        return section

    @property
    def needs_predictor(self) -> str | None:
        """The setting that agents which run the network themselves do not support; None if there is none."""
        if self.run.reproducible:
            return "run.reproducible"
        if self.cluster.ray != "none":
            return "cluster.ray"
        keys = ("prediction_batch_size", "min_prediction_batch_size", "predictor_devices")
        values = {key: getattr(self.system, key) for key in keys}
        given = (key for key, value in values.items() if not (is_auto(value) or value == ("auto",)))
        return next((f"system.{key}" for key in given), None)

    @property
    def allows_own_networks(self) -> bool:
        """Whether no setting keeps agents from running the network themselves."""
        return self.system.predictors in ("auto", 0) and self.needs_predictor is None

    @property
    def schedules(self) -> dict[str, Schedule]:
        """The values that change during a run, by "section.key", and the learning rate in any case."""
        methods = {drawn.method for drawn in self.replays}
        found = {}
        for name in ("optimizer", "algorithm", self.algorithm.name, "replay"):
            section = getattr(self, name)
            for key, value in section:
                unused = name == "replay" and not methods & SCHEDULED.get(key, set())
                changes = isinstance(value, Schedule) and value.changes
                if key == "learning_rate" or (changes and not unused):
                    found[f"{name}.{key}"] = value
        return found


def _world(info: ValidationInfo) -> WorldSettings:
    return settings_of(info.data.get("environment", Environment()).id)
