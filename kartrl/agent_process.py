"""An agent: steps one environment and writes what it sees into its slot. It knows nothing of networks."""

import os
import traceback
from multiprocessing.connection import Connection

import numpy as np

from kartrl.config import Config
from kartrl.envs import make_env
from kartrl.errors import UserError
from kartrl.lifetime import follow_parent
from kartrl.slots import AgentSlot, Slots, Stopped
from kartrl.types import Episode, Failure


def run(config: Config, slots: Slots, slot: int, seed: int, server: Connection) -> None:
    """Body of an agent process.

    Sends an `Episode` through `server` at each episode's end, and a `Failure` if it cannot go on.
    """
    follow_parent(grace=1.0)
    if hasattr(os, "nice"):
        os.nice(5)  # inference and training first: many agents wait for them
    try:
        _play(config, AgentSlot(slots, slot), seed, server)
    except (Stopped, BrokenPipeError):
        return
    except UserError as error:
        server.send(Failure(str(error), "", True))
        raise SystemExit(1) from error
    except Exception as error:
        server.send(Failure(f"{type(error).__name__}: {error}", traceback.format_exc(), False))
        raise SystemExit(1) from error


def _play(config: Config, slot: AgentSlot, seed: int, server: Connection) -> None:
    env = make_env(config, config.circuits("train"), training=True)
    try:
        observation, _ = env.reset(seed=seed)
        reset = True
        while True:
            action = slot.act(observation, reset)
            observation, reward, terminated, truncated, info = env.step(action)
            reward = float(reward)
            if not np.isfinite(reward):
                raise ValueError(f"the environment gave the reward {reward}")
            slot.record(reward, terminated)
            reset = terminated or truncated
            if reset:
                if not terminated:
                    slot.bootstrap(observation)
                server.send(Episode.of(info, terminated))
                observation, _ = env.reset()
    finally:
        env.close()
