"""`sleeping:Sleeping-v0`: an environment whose steps only wait, as if computed on another machine."""

import time

import gymnasium
import numpy as np


class Sleeping(gymnasium.Env[np.ndarray, int]):
    """Episodes of 200 steps of `seconds` each; observations have `side` x `side` bytes or, if it is 0, four floats."""

    def __init__(self, seconds: float = 0.005, side: int = 0) -> None:
        self._seconds = seconds
        box = gymnasium.spaces.Box
        self.observation_space = box(0, 255, (side, side, 1), np.uint8) if side else box(-1, 1, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """See `gymnasium.Env`."""
        super().reset(seed=seed)
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        """See `gymnasium.Env`."""
        time.sleep(self._seconds)
        self._step += 1
        return self.observation_space.sample(), float(action), self._step == 200, False, {}


gymnasium.register("Sleeping-v0", Sleeping)
