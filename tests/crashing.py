"""Gymnasium environments that fail, for the tests: `crashing:Crash-v0` raises after some steps."""

import os
import signal

import gymnasium
import numpy as np
from gymnasium import spaces


class Crash(gymnasium.Env):
    """Episodes of 20 steps; after `lifetime` steps in all, `step` raises."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, lifetime: int, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.lifetime, self.age, self.length = lifetime, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.age += 1
        self.length += 1
        if self.age > self.lifetime:
            raise RuntimeError("the cartridge fell out")
        return self.observation_space.sample(), 1.0, self.length == 20, False, {}


class CrashHard(Crash):
    """Kills its process when it is reset."""

    def reset(self, *, seed=None, options=None):
        os.kill(os.getpid(), signal.SIGSEGV)


gymnasium.register("CrashHard-v0", CrashHard, kwargs={"lifetime": 0})
gymnasium.register("Crash-v0", Crash, kwargs={"lifetime": 200})
gymnasium.register("CrashAtOnce-v0", Crash, kwargs={"lifetime": 3})
