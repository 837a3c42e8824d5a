"""An environment with actions of all kinds, of which masks allow some, for the tests: `many_kinds:Kinds-v0`."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Kinds(gymnasium.Env):
    """Vectors of several kinds; samples of masks that change with each step."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "place": spaces.Discrete(3),
                "speed": spaces.Box(-2, 2, (2,), np.float32),
                "wind": spaces.Box(0, 9, (), np.uint8),
            }
        )
        self.action_space = spaces.Dict(
            {
                "buttons": spaces.MultiBinary(3),
                "gear": spaces.Discrete(3, start=1),
                "wheel": spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32)),
            }
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), self._info()

    def step(self, action):
        assert self.action_space.contains(action)
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps == 20, False, self._info()

    def _info(self):
        gears = np.zeros(3, np.int8)
        gears[self.np_random.choice(3, 2, replace=False)] = 1
        return {"action_mask": {"buttons": self.np_random.integers(3, size=3, dtype=np.int8), "gear": gears}}


gymnasium.register("Kinds-v0", Kinds)
