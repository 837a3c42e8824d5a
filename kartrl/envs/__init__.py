"""Environments: any of Gymnasium's, wrapped for agents, and worlds that offer more, such as the kart race.

Importing this loads little, so that agents and tools start fast.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from kartrl.envs import masks
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError

if TYPE_CHECKING:
    from kartrl.config import Config
    from kartrl.envs.env_group import EnvGroup
    from kartrl.envs.world import World

LOOK_SECONDS, LOOK_STEPS = 0.1, 100  # limits for timing a step


def make_env(
    config: Config, levels: Sequence[str] = (), training: bool = True, render: bool = False
) -> gymnasium.Env[Any, Any]:
    """Make the environment that `config` names, after preparing its levels; see `World.open_env`."""
    return load_world(load_world(config).prepare()).open_env(levels, training, render)


def make_group(config: Config, size: int) -> EnvGroup:
    """Make `size` environments for training; the levels of `config` must be prepared."""
    return load_world(config).make_group(size)


def describe_env(config: Config) -> EnvSpec:
    """Make the environment once, step it briefly, and close it, so that its problems are found here.

    Raises:
        UserError: as `World.open_env`.
    """
    from kartrl.envs.observations import left_out

    world = load_world(config)
    env = world.open_env(world.all_levels())
    try:
        shape, dtype = env.observation_space.shape, str(env.observation_space.dtype)
        title = getattr(env.unwrapped, "game_title", config.environment.id)
        action = ActionSpec.of(env.action_space)
        timed = config.system.envs_per_agent == "auto"  # nothing else depends on the step time
        seconds, masked = _stepped(env, action, LOOK_STEPS if timed else 1)
        mirrored = _mirrored(world, action, shape or ())
        action = dataclasses.replace(action, masked=masked)
        return EnvSpec(title, shape or (), dtype, action, seconds if timed else 0.0, mirrored, left_out(env))
    finally:
        env.close()


def _mirrored(world: World, action: ActionSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """See `EnvSpec.mirrored`.

    Raises:
        UserError: the key does not fit the environment.
    """
    key = world.config.environment.mirrored_actions
    if isinstance(key, str):
        return world.mirrored_actions() if key == "auto" else ()
    name = "environment.mirrored_actions"
    if not action.choices or len(shape) != 3:
        raise UserError(f"{name}: only for images and Discrete actions; set it to none")
    if len(key) != action.choices or any(not (other < len(key) and key[other] == own) for own, other in enumerate(key)):
        raise UserError(
            f"{name}: must name one action for each of the {action.choices}, and the two of a pair each other, "
            "such as 0 2 1 for three of which the last two are a pair"
        )
    return key


def _stepped(env: gymnasium.Env[Any, Any], action: ActionSpec, most: int) -> tuple[float, bool]:
    """Step an environment, by legal actions.

    Args:
        most: number of steps, unless they take long.

    Returns:
        Median seconds per step, as other processes may use the core, 0 if it fails at once; whether it gives masks.

    Raises:
        UserError: a mask is invalid.
    """
    times: list[float] = []
    random, given = np.random.default_rng(0), []  # masks
    try:
        _, info = env.reset()
        given.append(info.get(masks.KEY))
        begin = time.perf_counter()
        while len(times) < most and time.perf_counter() - begin < LOOK_SECONDS:
            (chosen,) = action.sample(random, masks.restriction(env, given[-1])[None])
            start = time.perf_counter()
            _, _, terminated, truncated, info = env.step(chosen)
            times.append(time.perf_counter() - start)
            if terminated or truncated:
                _, info = env.reset()
            given.append(info.get(masks.KEY))
    except UserError:
        raise
    except Exception:
        pass  # agents will run into it too, and report it
    return statistics.median(times) if times else 0.0, any(mask is not None for mask in given)
