"""Driving with a trained network, to see what it does: whole episodes, or one step by step."""

import contextlib
import glob
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from rich.console import Console

from kartrl.config import Config, Levels, Run, dump, read
from kartrl.config.levels import is_path
from kartrl.driving.actor import Actor
from kartrl.envs import masks
from kartrl.envs.episode import STATISTICS, Drive
from kartrl.envs.observations import NonFiniteImage, fits, is_finite
from kartrl.envs.pictures import picture_of
from kartrl.envs.seeds import seed_generators
from kartrl.envs.spec import ActionSpec
from kartrl.envs.world import World
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError, located
from kartrl.files import user_path
from kartrl.hardware.devices import choose_device
from kartrl.learning import checkpoint
from kartrl.models import Network

MOST_BUILT = 1000  # circuits that a checkpoint may cause to be generated without the user asking for them
OnPicture = Callable[[np.ndarray], None]


class Step(NamedTuple):
    """State of an episode after a step, or at its start."""

    observation: np.ndarray  # what the network acts on next
    reward: float
    info: dict[str, Any]
    terminated: bool
    ended: bool


class Start(NamedTuple):
    """How one of the episodes that are driven together begins; see `drive_together`."""

    level: str  # "" if there are no levels
    seed: int  # of the environment and of sampling
    use: str = "train"  # recorded as the episode's purpose
    on_step: "Callable[[gymnasium.Env[Any, Any]], None] | None" = None  # called at the start and after each step


class Driver(NamedTuple):
    """A trained network on the environment it was trained for; see `open_driver`."""

    world: World
    agent_steps: int
    env: "gymnasium.Env[Any, Any]"
    network: Network
    levels: tuple[str, ...]  # empty if there are no levels


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
        render: whether the environment renders frames.
        console: shows the progress of building levels.
        overrides: `environment.key=value`: settings that differ from training.
        single: refuse several levels, if possible before they are built.
        max_steps: agent steps after which an episode is truncated; None: the run's `evaluation.max_steps`.

    Raises:
        UserError: the checkpoint, a level or the device is missing or unusable, the network does not fit the
            overridden environment, or an override has no effect.
    """
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
    try:
        env = world.open_env(found, training=False, render=render)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # of its constructor or a wrapper's: wrong arguments, for instance
        raise UserError(f"[environment] id = {config.environment.id}: {located(error)}") from error
    world.isolate(env)
    try:
        fits = env.observation_space.shape == loaded.observation_shape
        if overrides and not (fits and ActionSpec.of(env.action_space) == loaded.action):
            raise UserError(f"--set {' '.join(overrides)}: {path} was trained on other observations or actions")
        _check_effect(world, overrides, images=len(loaded.observation_shape) == 3)
        yield Driver(world, loaded.counters.agent_steps, env, network, found)
    finally:
        env.close()


def _check_single(word: str, levels: Sequence[str], named: str = "") -> None:
    """Refuse several levels; `named`: how the user named them, "" if they are those of the checkpoint."""
    if len(levels) > 1 and named:
        raise UserError(f"-s {named}: matches {len(levels)} {word}s; name one")
    if len(levels) > 1:
        raise UserError(f"there are {len(levels)} {word}s; name one with -s: {_short(levels)}")


def with_newer(driver: Driver, path: Path) -> Driver:
    """The driver with the network of another checkpoint of its run.

    Raises:
        UserError: it cannot be read, or its network differs.
    """
    loaded = checkpoint.load(path)
    device = next(driver.network.parameters()).device
    return driver._replace(agent_steps=loaded.counters.agent_steps, network=checkpoint.load_network(loaded, device))


def _needed(config: Config) -> Config:
    """The part of a checkpoint's configuration that driving needs; everything else in it is ignored."""
    kept = {name: getattr(config, name) for name in ("environment", "reward", "levels", "model", "evaluation")}
    return Config().model_copy(update=kept)


def _changed(config: Config, overrides: Sequence[str]) -> Config:
    """The configuration with overrides of [environment].

    Raises:
        UserError: an override is invalid, not of [environment], or selects another world.
    """
    for override in overrides:
        section, _, key = override.partition("=")[0].strip().partition(".")
        if section != "environment" or key == "id":
            raise UserError(f"--set {override}: only [environment] can differ from training, except its id")
    return read(overrides=overrides, base=dump(config)) if overrides else config


def _check_effect(world: World, overrides: Sequence[str], images: bool) -> None:
    """Refuse overrides of keys that have no effect here.

    Args:
        images: whether observations are images.

    Raises:
        UserError: one has none.
    """
    for override in overrides:
        key = override.partition("=")[0].strip().removeprefix("environment.")
        if not world.has_effect(key, images):
            raise UserError(f"--set {override}: has no effect on {world.config.environment.id}; leave it out")
        if key in world.training_keys:
            raise UserError(f"--set {override}: has an effect in training alone; leave it out")


def openable(path: Path, config: Config) -> tuple[Config, str]:
    """The configuration with those [levels] that may be opened, and a line that says which are left out, or "".

    Args:
        path: the checkpoint with this configuration.

    Raises:
        UserError: too many circuits would have to be generated.
    """
    own = _is_own(path)
    if not own and (number := config.levels.generated) > MOST_BUILT:
        raise UserError(f"{path}: [levels] has {number:,} generated circuits; choose some with -s")
    paths = [key for key, use in config.levels.circuits.items() if is_path(key) and use != "none"]
    left = [key for key in paths if not own or (not glob.glob(str(user_path(key))) and not user_path(key).exists())]
    levels = Levels(circuits={key: use for key, use in config.levels.circuits.items() if key not in left})
    reason = "are not found in this folder" if own else "are not opened"
    text = f"{path}: paths in its [levels] {reason} ({_short(left)}); name them with -s"
    return config.model_copy(update={"levels": levels}), text if left else ""


def _is_own(path: Path) -> bool:
    """Whether a checkpoint is one that a run in the user's own folder of runs has saved, not a file from elsewhere."""
    saved_by_run = path.name == "best.pt" or (path.parent.name == "checkpoints" and path.stem.isdecimal())
    folder = path.resolve().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    return saved_by_run and (folder / "config.cfg").is_file() and Run().logs_folder.resolve() in folder.parents


def _short(keys: Sequence[str], limit: int = 80) -> str:
    text = ", ".join(keys)
    return text if len(text) <= limit else f"{text[:limit]}..."


def drive(
    world: World,
    env: "gymnasium.Env[Any, Any]",
    network: Network,
    level: str,
    *,
    greedy: bool,
    seed: int,
    use: str = "train",
    on_picture: OnPicture | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Drive:
    """Drive one episode.

    Args:
        env: from `world`, able to drive on `level`.
        network: in evaluation mode.
        level: "" if there are no levels.
        greedy: take the most likely action instead of sampling.
        seed: seed of the environment and of sampling; the same seed gives the same drive.
        use: recorded as the episode's purpose.
        on_picture: called with each video frame, if the environment has `on_frame`, or else with what `env.render()`
            shows at the start and after each step, uint8 [H, W, 3].
        on_step: called at the start and after each step.
    """
    inner = env.unwrapped
    frames = on_picture is not None and hasattr(inner, "on_frame")

    def look(env: "gymnasium.Env[Any, Any]") -> None:
        if on_picture is not None and not frames:
            on_picture(picture_of(env))
        on_step()

    if frames:
        inner.on_frame = on_picture  # type: ignore[attr-defined]
    try:
        (driven,) = drive_together(world, [env], network, [Start(level, seed, use, look)], greedy=greedy)
    finally:
        if frames:
            inner.on_frame = None  # type: ignore[attr-defined]
    return driven


def drive_together(
    world: World,
    envs: "Sequence[gymnasium.Env[Any, Any]]",
    network: Network,
    starts: Sequence[Start],
    *,
    greedy: bool,
    on_end: Callable[[Start, Drive], None] = lambda _, __: None,
) -> list[Drive]:
    """Drive several episodes, as many at once as there are environments, with one forward pass for a step of all.

    It takes less time than `drive` for each. The results are close to that function's, but not the same, as rounding
    depends on the size of the batch; the same starts and as many environments give the same drives.

    Args:
        envs: from `world`, each able to drive on all these levels.
        network: in evaluation mode.
        greedy: take the most likely actions instead of sampling.
        on_end: called with each drive, in their order, when those at the same time have ended.
    """
    drives: list[Drive] = []
    for begin in range(0, len(starts), len(envs)):
        some = starts[begin : begin + len(envs)]
        episodes = [
            _episode(env, reset_options(world, start.level), start.seed) for env, start in zip(envs, some, strict=False)
        ]
        actor = Actor(network, ActionSpec.of(envs[0].action_space), greedy=greedy, seeds=[start.seed for start in some])
        traces: list[list[tuple[float, ...]]] = [[] for _ in some]
        newest = [next(episode) for episode in episodes]
        rows = list(range(len(some)))  # of the episodes that go on
        while rows:
            for row in rows:
                traces[row].append(world.trace(newest[row].info))
                if (on_step := some[row].on_step) is not None:
                    on_step(envs[row])
            going = [place for place, row in enumerate(rows) if not newest[row].ended]
            if len(going) < len(rows):
                actor.keep(going)
                rows = [rows[place] for place in going]
            if rows:
                restriction = _restriction([envs[row] for row in rows], [newest[row] for row in rows])
                actions = actor.act([newest[row].observation for row in rows], restriction)
                for row, action in zip(rows, actions, strict=True):
                    newest[row] = episodes[row].send(action)
        for step, start, trace in zip(newest, some, traces, strict=True):
            drives.append(Drive(world.make_episode(step.info, step.terminated, start.use), np.array(trace, np.float32)))
            on_end(start, drives[-1])
    return drives


def steps(
    env: "gymnasium.Env[Any, Any]",
    network: Network,
    options: dict[str, Any],
    *,
    greedy: bool,
    seed: int,
) -> Iterator[Step]:
    """Drive one episode step by step; the other arguments are those of `drive`.

    Args:
        options: of the environment's `reset`, such as `reset_options`.
    """
    actor = Actor(network, ActionSpec.of(env.action_space), greedy=greedy, seeds=[seed])
    episode = _episode(env, options, seed)
    step = next(episode)
    yield step
    while not step.ended:
        step = episode.send(actor.act([step.observation], _restriction([env], [step]))[0])
        yield step


def _episode(env: "gymnasium.Env[Any, Any]", options: dict[str, Any], seed: int) -> Generator[Step, Any, None]:
    """The start of one episode and its steps; takes the action of each."""
    seed_generators(seed)
    observation, info = env.reset(seed=seed, options=options or None)
    step = Step(observation, 0.0, info, False, False)
    length, total = 0, 0.0
    while not step.ended:
        action = yield step
        try:
            observation, reward, terminated, truncated, info = env.step(action)
            finite = fits(reward) and is_finite(observation)
        except NonFiniteImage:
            finite = False
        if not finite:  # it ends the episode, as in training
            info = step.info | {STATISTICS: {"l": length, "r": total}}
            yield Step(step.observation, 0.0, info, False, True)
            return
        length, total = length + 1, total + float(reward)
        step = Step(observation, float(reward), info, terminated, terminated or truncated)
    yield step


def _restriction(envs: "Sequence[gymnasium.Env[Any, Any]]", now: Sequence[Step]) -> np.ndarray | None:
    """Which actions are legal in these steps of as many environments, float32 [N, P]; None if none of them says so."""
    given = [step.info.get(masks.KEY) for step in now]
    if all(mask is None for mask in given):
        return None
    return np.stack([masks.restriction(env, mask) for env, mask in zip(envs, given, strict=True)])


def reset_options(world: World, level: str) -> dict[str, Any]:
    """Options of the environment's `reset` that select a level; none for ""."""
    return world.reset_options(level) if level else {}
