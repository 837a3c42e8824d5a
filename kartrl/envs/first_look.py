"""The first look at an environment, before a run: its spec, and how many of it an agent may have."""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np

from kartrl.config import Config
from kartrl.envs import masks
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.seeds import seed_generators
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.envs.world import World
from kartrl.envs.worlds import load_world
from kartrl.envs.wrappers.checked import Misfit
from kartrl.envs.wrappers.finite import NonFinite, fits, is_finite, reward_fault
from kartrl.envs.wrappers.own_folder import OwnFolder
from kartrl.envs.wrappers.parts import left_out
from kartrl.envs.wrappers.vectors import badly_scaled, fault_of
from kartrl.errors import UserError, located

Env = gymnasium.Env[Any, Any]
Info = dict[str, Any]
LOOK_SECONDS, LOOK_STEPS = 0.1, 100  # limits for timing a step
FEW_SECONDS, FEW_STEPS = 1.0, 5  # fewer steps are timed only if they take longer: one may have waited for the core
LEAST_FAULTS = 20  # faulty steps, if there are no others, after which nothing could be learned
MOST_TOGETHER = 8  # environments that `auto` gives an agent at most
MORE_SECONDS = 0.25  # after which no further environment is tried together with the first two
# attributes of Gymnasium's NormalizeObservation and NormalizeReward -> keys of [model] to use instead
RUNNING = {"obs_rms": "normalise_observations", "return_rms": "normalise_returns"}
STEP = "observation, reward, terminated, truncated and info"
OLD = "as in the old Gym: have the function that registers it return shimmy.GymV21CompatibilityV0(env=...)"


def look(
    config: Config, beat: Callable[[], None] = lambda: None, made: list[Env] | None = None
) -> Generator[EnvSpec, None, None]:
    """Make the environment, reset it with a seed and step it, then the same with several in this process.

    Yields its spec as soon as it is known, and again when more is known. If the process crashes or hangs meanwhile, the
    newest one holds.

    Args:
        config: whose levels are prepared.
        beat: see `World`.
        made: gets the environments, which are closed at the end.

    Raises:
        UserError: as `World.open_env`; or nothing could be learned in it, and the text says why.
    """
    world = load_world(config)
    world.beat = beat
    seed_generators(0)
    made = [] if made is None else made
    try:
        made.append(OwnFolder(lambda: world.open_env(world.all_levels())))
        spec = _describe(world, made[0])
        random = np.random.default_rng(0)
        seen = _stepped(made[0], spec, random)
        faint, large = badly_scaled(made[0], spec.observation, seen.largest)
        action = dataclasses.replace(spec.action, masked=seen.masked)
        spec = spec._replace(step_seconds=seen.seconds, action=action, faint=faint, large=large, rewards=seen.rewards)
        if not seen.masked and config.environment.action_masks:
            spec = spec._replace(unused_mask=masks.elsewhere(made[0]))
        begin, limit = time.perf_counter(), "a second one crashes or hangs"
        while (count := len(made)) < 2 or (count < MOST_TOGETHER and time.perf_counter() - begin < MORE_SECONDS):
            yield spec._replace(most_envs=count, limit=limit)
            try:
                made.append(OwnFolder(lambda: world.open_env(world.all_levels())))
                begun = []
                for index in (count, 0):  # the first must not have been broken
                    begun.append(_begin(made[index], index))
                    made[index].step(_legal(made[index], spec.action, random, begun[-1][1]))
                if len(world.all_levels()) < 2:  # of several, one may be drawn by what was driven before
                    spec = spec._replace(unseeded=_unseeded(made[0], count, [one[0] for one in begun], seen.first))
            except Exception as error:  # third-party code may raise anything
                yield spec._replace(most_envs=count, limit=located(error))
                return
        yield spec
    except Misfit as error:
        raise UserError(f"{config.environment.id}: {error}") from error
    finally:
        for env in made:
            env.close()


def _begin(env: Env, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """A copy of the first observation, and its `info`."""
    seed_generators(seed)
    observation, info = env.reset(seed=seed)
    return np.copy(observation), info


def _unseeded(env: Env, seed: int, begun: Sequence[np.ndarray], first: np.ndarray) -> Literal["", "zero", "any"]:
    """Whether resets with the seed 0 differ, or those with any.

    Args:
        seed: not 0.
        begun: what two environments began with, for `seed` and for 0.
        first: what this one began with for 0.
    """
    other, zero = begun
    if np.array_equal(first, zero, equal_nan=True):
        return ""
    return "zero" if np.array_equal(other, _begin(env, seed)[0], equal_nan=True) else "any"


def _describe(world: World, env: Env) -> EnvSpec:
    observation = ObservationSpec.of(env.observation_space)
    title = getattr(env.unwrapped, "game_title", world.config.environment.id)
    action = ActionSpec.of(env.action_space)
    renders = "rgb_array" in (env.metadata.get("render_modes") or ())
    mirrored = _mirrored(world, action, observation)
    upside_down = world.config.environment.mirror == "up-down"
    keys = tuple(f"model.{key}" for name, key in RUNNING.items() if env.has_wrapper_attr(name))
    spec = EnvSpec(title, observation, action, 0.0, mirrored, upside_down, left_out(env), renders=renders)
    return spec._replace(normalising=keys, remark=world.remark(env))


def _mirrored(world: World, action: ActionSpec, observation: ObservationSpec) -> tuple[int, ...]:
    """See `EnvSpec.mirrored`.

    Raises:
        UserError: the key does not fit the environment.
    """
    key = world.config.environment.mirrored_actions
    if isinstance(key, str):
        return world.mirrored_actions() if key == "auto" and not observation.is_packed else ()
    name = "environment.mirrored_actions"
    if not action.choices or not observation.has_images or observation.is_packed:
        raise UserError(f"{name}: only for images alone and Discrete actions; set it to none")
    if len(key) != action.choices or any(not (other < len(key) and key[other] == own) for own, other in enumerate(key)):
        raise UserError(
            f"{name}: must name one action for each of the {action.choices}, and the two of a pair each other, "
            "such as 0 2 1 for three of which the last two are a pair"
        )
    return key


class _Seen(NamedTuple):
    """What random steps have shown."""

    first: np.ndarray  # observation, after a reset with the seed 0
    seconds: float  # per step after the first: the median, as other processes may use the core
    masked: bool  # whether there are masks
    largest: list[np.ndarray]  # absolute values that were observed of each part
    rewards: tuple[float, float]  # the lowest and the highest


def _stepped(env: Env, spec: EnvSpec, random: np.random.Generator) -> _Seen:
    """Begin an episode and step by legal actions, as far as there is time.

    Exceptions of its own or faults after the first step are none here, as agents survive them, unless there is nothing
    else.

    Raises:
        Misfit: it cannot be reset or stepped, or returns only what cannot be learned from.
        UserError: a mask is invalid.
    """
    action, seen = spec.action, spec.observation.each
    with _explained(env):
        first, info = _begin(env, 0)
        if not is_finite(first):
            raise Misfit(f"it begins with {fault_of(env)}")
        masked = info.get(masks.KEY) is not None
        fault, info, stepped, reward = _step(env, _legal(env, action, random, info))
        largest = _largest(seen(first), seen(stepped))
    times: list[float] = []
    faults, rewards, begin = [fault], [reward], time.perf_counter()
    try:
        while len(times) < LOOK_STEPS:
            doubtful = all(faults) and len(faults) < LEAST_FAULTS  # each costs a reset, which may take long
            if time.perf_counter() - begin >= (FEW_SECONDS if doubtful or len(times) < FEW_STEPS else LOOK_SECONDS):
                break
            masked |= info.get(masks.KEY) is not None
            chosen = _legal(env, action, random, info)
            start = time.perf_counter()
            fault, info, stepped, reward = _step(env, chosen)
            times.append(time.perf_counter() - start)
            faults.append(fault)
            rewards.append(reward)
            largest = _largest(largest, seen(stepped))
    except (Misfit, UserError):
        raise
    except Exception:
        pass
    if len(faults) >= LEAST_FAULTS and all(faults):
        raise Misfit(f"its steps have nothing but {faults[-1]}: scale or clip it in environment.wrapper")
    seconds = statistics.median(times) if times else 0.0
    return _Seen(first, seconds, masked, largest, (min(rewards), max(rewards)))


def _largest(those: list[np.ndarray], parts: list[np.ndarray]) -> list[np.ndarray]:
    """The larger absolute values of each part of observations."""
    return [np.fmax(np.abs(one), np.abs(other)) for one, other in zip(those, parts, strict=True)]


def _legal(env: Env, action: ActionSpec, random: np.random.Generator, info: Info) -> Any:
    """A random action after a step, or a reset, with this `info`."""
    return action.sample(random, masks.restriction(env, info.get(masks.KEY))[None])[0]


def _step(env: Env, action: Any) -> tuple[str, Info, Any, float]:
    """Take a step, and begin the next episode if one ends.

    Returns:
        The step's fault, or "", the newest `info`, the newest observation, and the reward, 0 if it is faulty.
    """
    observation: Any = None
    reward: Any = 0.0
    try:
        observation, reward, terminated, truncated, info = env.step(action)
        fault = "" if fits(reward) else reward_fault(reward)
        fault = fault if is_finite(observation) else fault_of(env)
    except NonFinite as error:
        fault = str(error)
    if fault or terminated or truncated:
        first, info = env.reset()
        observation = first if observation is None else observation
    return fault, info, observation, 0.0 if fault else reward


@contextlib.contextmanager
def _explained(env: Env) -> Iterator[None]:
    """Context manager: raise a Misfit that says how the interface of `env` differs from Gymnasium's, if it does."""
    try:
        yield
    except (Misfit, UserError):
        raise
    except NonFinite as error:
        raise Misfit(f"it begins with {error}") from error
    except Exception as error:
        if (difference := _difference(env.unwrapped, error)) is not None:
            raise Misfit(difference) from error
        raise


def _difference(env: Env, error: Exception) -> str | None:
    """How the interface of an environment without wrappers, which has raised an exception, differs from Gymnasium's."""
    keywords = any(f"unexpected keyword argument '{name}'" in str(error) for name in ("seed", "options"))
    if isinstance(error, TypeError) and keywords:
        return f"its reset must be reset(self, *, seed=None, options=None): {error}"
    if isinstance(error, AttributeError) and error.name == "seed":
        return f"its reset cannot be given a seed: {error}; add that method in the function that registers it"
    with contextlib.suppress(Exception, SystemExit):
        began: Any = env.reset()
        if not (isinstance(began, tuple) and len(began) == 2 and isinstance(began[1], dict)):
            return f"its reset does not return an observation and info, a dict, {OLD}"
        stepped: Any = env.step(env.action_space.sample())
        if not isinstance(stepped, tuple) or len(stepped) != 5:
            number = f"{len(stepped)} values" if isinstance(stepped, tuple) else type(stepped).__name__
            return f"its step returns {number} instead of {STEP}, {OLD}"
    return None
