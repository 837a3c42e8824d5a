"""Driving episodes with a trained network: several at once, or one step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kartrl.driving.recorded_actor import Recorded, RecordedActor
from kartrl.envs import masks
from kartrl.envs.episode import STATISTICS, Drive
from kartrl.envs.seeds import keep_generators, restore_generators, seed_generators
from kartrl.envs.spec import ActionSpec
from kartrl.envs.world import Env, World
from kartrl.envs.wrappers.finite import NonFinite, fits, is_finite
from kartrl.envs.wrappers.pictures import picture_of

if TYPE_CHECKING:
    from kartrl.driving.actor import Actor
    from kartrl.models import ActorCritic

OnPicture = Callable[[np.ndarray], None]


class Step(NamedTuple):
    """State of an episode after a step, or at its start."""

    observation: np.ndarray  # what the network acts on next
    reward: float
    info: dict[str, Any]
    terminated: bool
    ended: bool


class Start(NamedTuple):
    """How an episode begins."""

    level: str  # "" if there are no levels
    seed: int  # of the environment and of sampling
    use: str = "train"  # recorded as the episode's purpose
    on_step: Callable[[Env], None] | None = None  # called at the start and after each step, if in this process
    here: bool = False  # whether it must be driven in this process


def drive(
    world: World,
    env: Env,
    network: ActorCritic | Recorded,
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

    def look(env: Env) -> None:
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
    envs: Sequence[Env],
    network: ActorCritic | Recorded,
    starts: Sequence[Start],
    *,
    greedy: bool,
    on_end: Callable[[Start, Drive], None] = lambda _, __: None,
) -> list[Drive]:
    """Drive several episodes, as many at once as there are environments, with one forward pass for a step of all.

    Each is the same, to the bit, as if it were driven alone (see `Actor`), unless the environments share something.

    Args:
        envs: from `world`, each able to drive on all these levels.
        network: in evaluation mode.
        greedy: take the most likely actions instead of sampling.
        on_end: called with each drive when it has ended.
    """
    drives: dict[int, Drive] = {}

    def keep(index: int, driven: Drive) -> None:
        drives[index] = driven
        on_end(starts[index], driven)

    drive_each(world, envs, network, enumerate(starts), greedy=greedy, on_end=keep)
    return [drives[index] for index in range(len(starts))]


def drive_each(
    world: World,
    envs: Sequence[Env],
    network: ActorCritic | Recorded,
    starts: Iterable[tuple[int, Start]],
    *,
    greedy: bool,
    on_end: Callable[[int, Drive], None],
) -> None:
    """As `drive_together`, for numbered starts, the next of which is taken whenever an environment is free."""
    actor, waiting = _make_actor(network, envs[0], greedy), iter(starts)
    running: dict[int, _Running] = {}  # by the row of its environment

    def begin(row: int) -> None:
        if (start := next(waiting, None)) is not None:
            actor.begin(row, start[1].seed)
            running[row] = _Running(world, envs[row], *start, apart=len(envs) > 1 and not world.independent)

    for row in range(len(envs)):
        begin(row)
    while rows := [*running]:
        now = [running[row].newest for row in rows]
        restriction = restriction_of([envs[row] for row in rows], now)
        actions = actor.act(rows, [step.observation for step in now], restriction)
        for row, action in zip(rows, actions, strict=True):
            if (driven := running[row].take(action)) is not None:
                on_end(running.pop(row).index, driven)
                begin(row)


def _make_actor(network: ActorCritic | Recorded, env: Env, greedy: bool) -> Actor | RecordedActor:
    action = ActionSpec.of(env.action_space)
    if isinstance(network, Recorded):
        return RecordedActor(network, action, greedy=greedy)
    from kartrl.driving.actor import Actor  # loads PyTorch

    return Actor(network, action, greedy=greedy)


class _Running:
    """An episode that is being driven in an environment.

    Args:
        apart: give it the global random generators as if it were alone in this process.
    """

    def __init__(self, world: World, env: Env, index: int, start: Start, *, apart: bool) -> None:
        self.index, self._world, self._env, self._start, self._apart = index, world, env, start, apart
        self._trace: list[tuple[float, ...]] = []
        self._episode = start_episode(env, reset_options(world, start.level), start.seed)
        self._see(next(self._episode))

    def _see(self, step: Step) -> None:
        self.newest = step
        if self._apart:
            self._generators = keep_generators()
        self._trace.append(self._world.trace(step.info))
        if self._start.on_step is not None:
            self._start.on_step(self._env)

    def take(self, action: Any) -> Drive | None:
        """Take an action; returns the drive if the episode has ended."""
        if self._apart:
            restore_generators(self._generators)
        self._see(self._episode.send(action))
        if not self.newest.ended:
            return None
        episode = self._world.make_episode(self.newest.info, self.newest.terminated, self._start.use)
        return Drive(episode, np.array(self._trace, np.float32))


def steps(
    env: Env,
    network: ActorCritic | Recorded,
    options: dict[str, Any],
    *,
    greedy: bool,
    seed: int,
) -> Iterator[Step]:
    """Drive one episode step by step; the other arguments are those of `drive`.

    Args:
        options: of the environment's `reset`, such as `reset_options`.
    """
    actor = _make_actor(network, env, greedy)
    actor.begin(0, seed)
    episode = start_episode(env, options, seed)
    step = next(episode)
    yield step
    while not step.ended:
        step = episode.send(actor.act([0], [step.observation], restriction_of([env], [step]))[0])
        yield step


def start_episode(env: Env, options: dict[str, Any], seed: int) -> Generator[Step, Any, None]:
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
        except NonFinite:
            finite = False
        if not finite:  # it ends the episode, as in training
            info = step.info | {STATISTICS: {"l": length, "r": total}}
            yield Step(step.observation, 0.0, info, False, True)
            return
        length, total = length + 1, total + float(reward)
        step = Step(observation, float(reward), info, terminated, terminated or truncated)
    yield step


def restriction_of(envs: Sequence[Env], now: Sequence[Step]) -> np.ndarray | None:
    """Which actions are legal in these steps of as many environments, float32 [N, P]; None if none has a mask."""
    given = [step.info.get(masks.KEY) for step in now]
    if all(mask is None for mask in given):
        return None
    return np.stack([masks.restriction(env, mask) for env, mask in zip(envs, given, strict=True)])


def reset_options(world: World, level: str) -> dict[str, Any]:
    """Options of the environment's `reset` that select a level; none for ""."""
    return world.reset_options(level) if level else {}
