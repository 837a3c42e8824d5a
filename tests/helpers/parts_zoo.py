"""Environments whose observations have several parts, for the tests: `parts_zoo:Signals-v0` and others."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

BITS, LENGTH = 4, 10  # steps of an episode
GRID = spaces.Dict(
    {
        "direction": spaces.Discrete(4),
        "image": spaces.Box(0, 255, (24, 20, 3), np.uint8),
        "mission": spaces.Text(9),
        "notes": spaces.Tuple((spaces.Text(3), spaces.Box(-1, 1, (2,), np.float32))),
    }
)


class Signals(gymnasium.Env):
    """Each of the four parts shows a bit: two images of different sizes, a vector, and a number; nested.

    The action is these bits as a number, and its reward the fraction of them that is right.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's own type

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Dict(
            {
                "cameras": spaces.Tuple(
                    (spaces.Box(0, 255, (24, 28, 3), np.uint8), spaces.Box(0, 1, (1, 20, 17), np.float32))
                ),
                "gear": spaces.Discrete(2, start=3),
                "state": spaces.Dict({"speed": spaces.Box(-np.inf, np.inf, (3,), np.float64)}),
            }
        )
        self.action_space = spaces.Discrete(2**BITS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observed(), {}

    def step(self, action):
        taken = int(action) >> np.arange(BITS) & 1
        reward = float((taken == self.bits).mean())
        self._steps += 1
        return self._observed(), reward, False, self._steps == LENGTH, {}

    def _observed(self) -> dict[str, Any]:
        self.bits = self.np_random.integers(2, size=BITS)
        left, top, gear, fast = self.bits.tolist()
        wide, grey = np.zeros((24, 28, 3), np.uint8), np.zeros((1, 20, 17), np.float32)
        wide[:, 14 * left : 14 * (left + 1)] = 255
        grey[:, 10 * top : 10 * (top + 1)] = 1.0
        return {
            "cameras": (wide, grey),
            "gear": 3 + gear,
            "state": {"speed": np.array([0.5, 2.0 * fast - 1, -0.5])},
        }

    def render(self) -> np.ndarray:
        return np.tile(np.uint8(255 * self.bits[:, None, None]), (1, 8, 3)).repeat(8, 0)


class Samples(gymnasium.Env):
    """Shows samples of its space; `shown` is the newest.

    Args:
        observations: the space.
        broken: function that breaks the sample of step 3.
    """

    def __init__(self, observations: spaces.Space = GRID, broken: Any = None) -> None:
        self.observation_space, self.action_space = observations, spaces.Discrete(2)
        self._broken, self._steps = broken, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action):
        self._steps += 1
        self.shown = self.observation_space.sample()
        if self._broken is not None and self._steps == 3:
            self._broken(self.shown)
        return self.shown, 1.0, False, False, {}


def _break_speed(shown: dict[str, Any]) -> None:
    shown["speed"][1] = 1e300


def _break_image(shown: dict[str, Any]) -> None:
    shown["image"][0, 0] = np.nan


PAIR = spaces.Dict(
    {"image": spaces.Box(0, 1, (20, 20), np.float32), "speed": spaces.Box(-np.inf, np.inf, (2,), np.float64)}
)
gymnasium.register("Signals-v0", Signals)
gymnasium.register("Grid-v0", Samples)
gymnasium.register("FastBroken-v0", Samples, kwargs={"observations": PAIR, "broken": _break_speed})
gymnasium.register("ImageBroken-v0", Samples, kwargs={"observations": PAIR, "broken": _break_image})
