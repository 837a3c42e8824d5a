"""Environments: the kart race as `kartrl/Kart-v0`, and any other that Gymnasium knows, made ready for an agent.

Importing this registers the kart race and little else: agents, tools and `gymnasium.make` stay quick to start.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import UserError
from kartrl.runtime.isolation import Lost, apart

if TYPE_CHECKING:
    from kartrl.config import Config

KART = "kartrl/Kart-v0"
LOOK_SECONDS, LOOK_STEPS = 0.1, 100  # for which a step is timed, at most
RESET_SECONDS = 0.1  # that a circuit may take to begin
if KART not in gymnasium.registry:
    gymnasium.register(KART, entry_point="kartrl.kart.env:KartEnv")


def make_env(
    config: Config, circuits: Sequence[str] = (), training: bool = True, render: bool = False
) -> gymnasium.Env[Any, Any]:
    """The environment that `config` names, with episode statistics (`info["episode"]`).

    Observations are uint8 [H, W, C] (stacked images along C) or float32 [D]. Actions are Discrete and count from 0, or
    Box, float [D], clipped to their finite bounds by the environment.

    Args:
        circuits: for the kart, one of these is drawn at each reset; without any, the circuits trained on.
        training: for the kart, whether episodes may begin at any checkpoint (`environment.random_start`).
        render: whether `env.render()` gives pictures, uint8 [H, W, 3].

    Raises:
        UserError: no such environment or circuit, or one that kartrl cannot drive; it says what there is instead.
    """
    from gymnasium.wrappers import RecordEpisodeStatistics

    if config.is_kart:
        from kartrl.kart.env import make_kart

        env = make_kart(config, circuits, training, render)
    else:
        from kartrl.envs.wrappers import make_other

        env = make_other(config.environment, render)
    return RecordEpisodeStatistics(env)


def look_at(config: Config) -> EnvSpec:
    """Make the environment once, step it for a moment, and close it, in another process: what can be wrong with it comes out here.

    Raises:
        UserError: as `make_env`; there are circuits, but none to train on; or the environment crashed or hung.
    """
    try:
        circuits = config.circuits("train") + config.circuits("test")
        spec: EnvSpec = apart(_look, config, seconds=config.system.step_timeout + RESET_SECONDS * len(circuits))
    except Lost as error:
        raise UserError(f"[environment] id = {config.environment.id}: {error}") from error
    return spec


def _look(config: Config) -> EnvSpec:
    if config.is_kart and not config.circuits("train"):
        raise UserError("[levels]: no circuit says train; set at least one, as in --set levels.MarioCircuit.Act1=train")
    circuits = config.circuits("train") + config.circuits("test")
    env = make_env(config, circuits, training=True)
    try:
        for circuit in circuits:  # a start state may be damaged, or of another build of the ROM
            env.reset(options={"circuit": circuit})
        shape, dtype = env.observation_space.shape, str(env.observation_space.dtype)
        title = getattr(env.unwrapped, "game_title", config.environment.id)
        action = ActionSpec.of(env.action_space)
        wanted = config.system.envs_per_agent == "auto"  # only this depends on it
        return EnvSpec(title, shape or (), dtype, action, _step_seconds(env, action) if wanted else 0.0)
    finally:
        env.close()


def _step_seconds(env: gymnasium.Env[Any, Any], action: ActionSpec) -> float:
    """Seconds of one step, over a moment: the median, as others may use the core meanwhile; 0 if the environment fails at once."""
    times: list[float] = []
    actions = action.sample(np.random.default_rng(0), LOOK_STEPS)
    with contextlib.suppress(Exception):  # the agents will meet it too, and tell
        env.reset()
        begin = time.perf_counter()
        while len(times) < LOOK_STEPS and time.perf_counter() - begin < LOOK_SECONDS:
            start = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(actions[len(times)])
            times.append(time.perf_counter() - start)
            if terminated or truncated:
                env.reset()
    return statistics.median(times) if times else 0.0
