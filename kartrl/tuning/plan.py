"""What a study searches, and how."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

from kartrl.config import Config, read, settings
from kartrl.tuning.objective import Objective
from kartrl.tuning.space import Params, Space, overrides

PARTS = 10  # of a training, after each of which it is reported and may be pruned: Optuna's steps


class Plan(NamedTuple):
    """A study, as a command line describes it."""

    name: str
    folder: Path  # of the study and its trainings
    files: list[str]  # of the base configuration
    given: list[str]  # overrides of the base configuration
    config: Config  # the base configuration
    space: Space
    every: bool  # whether to train every combination, in order
    objective: Objective
    sampler: Literal["tpe", "random"]
    pruner: Literal["none", "median", "halving", "hyperband"]
    trials: int
    seeds: int  # trainings of each trial
    confirm: int  # fresh seeds for the best trial and the defaults at the end

    @property
    def own_seeds(self) -> list[int]:
        """Of each trial's trainings."""
        return [*range(self.config.run.seed, self.config.run.seed + self.seeds)]

    @property
    def fresh_seeds(self) -> list[int]:
        """Of the confirmations."""
        first = self.config.run.seed + self.seeds
        return [*range(first, first + self.confirm)]

    def config_of(self, params: Params, *ours: str) -> Config:
        """The configuration with a trial's parameters; none: the defaults. `ours`: further overrides.

        Raises:
            UserError: the values do not go together.
        """
        return read(self.files, [*self.given, *(overrides(self.space, params) if params else []), *ours])

    def record(self) -> dict[str, Any]:
        """What must stay the same for trials to be comparable."""
        searched = {f"search of {one.key}": f"{one.distribution} {' '.join(one.words)}".strip() for one in self.space}
        own = {"metric": str(self.objective), "lower": self.objective.lower, "seeds": self.seeds}
        return {**settings(self.config), **searched, **own}
