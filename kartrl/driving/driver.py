"""A trained network with the environment that it was trained for.

Functions that need PyTorch import it: the evaluator, which may do without, makes its `Driver` itself.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from kartrl.config import Config, Run, dump, read
from kartrl.driving.recorded_actor import Recorded
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.seeds import seed_generators
from kartrl.envs.spec import ActionSpec
from kartrl.envs.world import Env, World
from kartrl.envs.worlds import load_world
from kartrl.envs.wrappers.own_folder import OwnFolder
from kartrl.errors import UserError, located

if TYPE_CHECKING:
    from kartrl.models import ActorCritic


class Driver(NamedTuple):
    """A trained network on the environment it was trained for; see `open_driver`."""

    world: World
    agent_steps: int
    envs: list[Env]  # at least one; `drive_levels` opens further ones
    policy: ActorCritic | Recorded
    levels: tuple[str, ...]  # empty if there are no levels
    path: Path  # the checkpoint
    most_envs: int  # that a process may have, as far as is known; 0: any number
    open_another: Callable[[], Env]  # another environment like these

    @property
    def network(self) -> ActorCritic:
        """The network, of a driver that `open_driver` has opened."""
        assert not isinstance(self.policy, Recorded)
        return self.policy

    @property
    def env(self) -> Env:
        """The first environment."""
        return self.envs[0]


@contextlib.contextmanager
def open_driver(
    path: Path,
    levels: Sequence[str],
    device: str,
    render: bool = False,
    console: Console | None = None,
    overrides: Sequence[str] = (),
    single: bool = False,
    max_steps: int | None = None,
) -> Iterator[Driver]:
    """Context manager: the `Driver` of a checkpoint, with an environment for these levels.

    Args:
        levels: as a user names them; if empty, those that the checkpoint's configuration trains or tests on. Of these,
            paths are opened only for a run in the user's own folder of runs: a stranger's are of another machine.
        device: auto, cpu, cuda or mps; auto is the CPU, which is as fast as any for one observation at a time.
        overrides: `section.key=value` of the environment: settings that differ from training.
        single: refuse several levels, if possible before they are built.
        max_steps: agent steps after which an episode is truncated; None: the run's `evaluation.max_steps`.

    Raises:
        UserError: the checkpoint, a level or the device is missing or unusable, the network does not fit the
            overridden environment, or an override has no effect.
    """
    import torch

    from kartrl.hardware.devices import choose_device
    from kartrl.learning import checkpoint

    loaded = checkpoint.load(path)
    config = _changed(_needed(loaded.config), overrides)
    if max_steps is not None:
        limited = config.evaluation.model_copy(update={"max_steps": max_steps})
        config = config.model_copy(update={"evaluation": limited})
    checkpoint.check_imports(config)
    chosen = choose_device("cpu" if device == "auto" else device)
    network = checkpoint.load_network(loaded, chosen)
    torch.set_num_threads(1)  # more are no faster for one observation, and far slower on a machine that also trains
    world = load_world(config)
    if levels:
        found = world.find_levels(levels, console)
    else:
        own, left_out = openable(path, config)
        if single:
            _check_single(world.level_word, load_world(own).level_keys())
        world = load_world(load_world(own).prepare(console))
        found = world.all_levels()
        if left_out and not found:
            raise UserError(left_out)
        if left_out and console is not None:
            console.print(left_out, highlight=False, markup=False, soft_wrap=True)
    if single:
        _check_single(world.level_word, found, ",".join(levels))
    seed_generators(0)  # each episode has its own seed; environments may draw when they are made
    open_another = functools.partial(open_env, world, found, render)
    try:
        envs = [open_another()]
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # of its constructor or a wrapper's: wrong arguments, for instance
        raise UserError(f"[environment] id = {config.environment.id}: {located(error)}") from error
    try:
        fits = ObservationSpec.of(envs[0].observation_space) == loaded.observation
        if overrides and not (fits and ActionSpec.of(envs[0].action_space) == loaded.action):
            raise UserError(f"--set {' '.join(overrides)}: {path} was trained on other observations or actions")
        _check_effect(world, overrides, images=loaded.observation.has_images)
        most = 0 if world.independent else 1 if overrides else loaded.most_envs
        yield Driver(world, loaded.counters.agent_steps, envs, network, found, path, most, open_another)
    finally:
        for env in envs:
            env.close()


def open_env(world: World, levels: Sequence[str], render: bool = False) -> Env:
    """An environment to drive in, with a folder of its own; a level that crashes it raises a UserError."""

    def make() -> Env:
        return world.open_env(levels, training=False, render=render)

    env = make() if world.independent else OwnFolder(make)
    world.isolate(env)
    return env


def _check_single(word: str, levels: Sequence[str], named: str = "") -> None:
    """Refuse several levels; `named`: how the user named them, "" if they are those of the checkpoint."""
    if len(levels) > 1 and named:
        raise UserError(f"-l {named}: matches {len(levels)} {word}s; name one")
    if len(levels) > 1:
        raise UserError(f"there are {len(levels)} {word}s; name one with -l: {_short(levels)}")


def with_newer(driver: Driver, path: Path) -> Driver:
    """The driver with the network of another checkpoint of its run.

    Raises:
        UserError: it cannot be read, or its network differs.
    """
    from kartrl.learning import checkpoint

    loaded = checkpoint.load(path)
    device = next(driver.network.parameters()).device
    network = checkpoint.load_network(loaded, device)
    return driver._replace(agent_steps=loaded.counters.agent_steps, policy=network, path=path)


def _needed(config: Config) -> Config:
    """The part of a checkpoint's configuration that driving needs; everything else in it is ignored."""
    kept = {name: getattr(config, name) for name in ("environment", "world", "levels", "model", "evaluation")}
    return Config().model_copy(update=kept)


def _changed(config: Config, overrides: Sequence[str]) -> Config:
    """The configuration with overrides of the environment."""
    own = ["environment", *type(config.world).model_fields]
    for override in overrides:
        section, _, key = override.partition("=")[0].strip().partition(".")
        if (section not in own and section in config.sections) or (section, key) == ("environment", "id"):
            sections = " and ".join(f"[{name}]" for name in own)
            raise UserError(f"--set {override}: only {sections} can differ from training, except environment.id")
    return read(overrides=overrides, base=dump(config)) if overrides else config


def _check_effect(world: World, overrides: Sequence[str], images: bool) -> None:
    """Refuse overrides of keys that have no effect here.

    Args:
        images: whether observations are images.
    """
    for override in overrides:
        key = override.partition("=")[0].strip()
        name = key.removeprefix("environment.")
        if name != key and not world.has_effect(name, images):
            raise UserError(f"--set {override}: has no effect on {world.config.environment.id}; leave it out")
        if key in world.training_keys:
            raise UserError(f"--set {override}: has an effect in training alone; leave it out")


def openable(path: Path, config: Config) -> tuple[Config, str]:
    """The configuration with those [levels] that may be opened, and a line that says which are left out, or "".

    Args:
        path: the checkpoint with this configuration.

    Raises:
        UserError: see `World.openable`.
    """
    own = _is_own(path)
    try:
        config, left = load_world(config).openable(own)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    reason = "are not found in this folder" if own else "are not opened"
    text = f"{path}: paths in its [levels] {reason} ({_short(left)}); name them with -l"
    return config, text if left else ""


def _is_own(path: Path) -> bool:
    """Whether a checkpoint is one that a run in the user's own folder of runs has saved, not a file from elsewhere."""
    saved_by_run = path.name == "best.pt" or (path.parent.name == "checkpoints" and path.stem.isdecimal())
    folder = path.resolve().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    return saved_by_run and (folder / "config.cfg").is_file() and Run().logs_folder.resolve() in folder.parents


def _short(keys: Sequence[str], limit: int = 80) -> str:
    text = ", ".join(keys)
    return text if len(text) <= limit else f"{text[:limit]}..."
