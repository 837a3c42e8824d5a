"""A Gymnasium environment that fails, for the tests: `crashing:Crash-v0` raises at a step drawn at random."""

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


gymnasium.register("Crash-v0", Crash, kwargs={"lifetime": 200})
gymnasium.register("CrashAtOnce-v0", Crash, kwargs={"lifetime": 3})
