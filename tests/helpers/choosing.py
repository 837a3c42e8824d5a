"""Small environments with actions of every kind, which are learned within thousands of steps: `choosing:Choose-v0`.

`kwargs.kind` names the actions, one of `SPACES`.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SPACES = {
    "discrete": spaces.Discrete(4, start=3),
    "multi-discrete": spaces.MultiDiscrete([3, 4], start=[1, 0]),
    "multi-binary": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)),
    "tuple": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.Box(-2.0, 2.0, (1,), np.float32))),
    "dict": spaces.Dict(
        {
            "arm": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(0.0, 1.0, (2,), np.float64))),
            "gear": spaces.Discrete(3),
        }
    ),
}
STEPS = 10  # of an episode


class Choose(gymnasium.Env):
    """Shows the action to take, as numbers from -1 to 1; the reward is the share of its parts that is taken.

    A continuous number counts as 1 minus its distance as a fraction of half its range, at least 0.
    """

    observation_space: spaces.Space
    action_space: spaces.Space

    def __init__(self, kind: str) -> None:
        self.action_space = SPACES[kind]
        self.whole = np.concatenate([whole for _, whole in parts(self.action_space, self.action_space.sample())])
        self.observation_space = spaces.Box(-1.0, 1.0, (len(self.whole),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self.action_space.seed(seed)
        self.steps = 0
        return self._next(), {}

    def step(self, action: Any):
        assert action in self.action_space, action
        error = np.abs(self._flat(action) - self.wanted)
        right = np.where(self.whole, error < 1e-6, (1 - error).clip(0))
        self.steps += 1
        return self._next(), float(right.mean()), False, self.steps == STEPS, {}

    def _next(self) -> np.ndarray:
        self.wanted = self._flat(self.action_space.sample())
        return self.wanted.astype(np.float32)

    def _flat(self, action: Any) -> np.ndarray:
        return np.concatenate([numbers for numbers, _ in parts(self.action_space, action)])


def parts(space: spaces.Space, value: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """The numbers of each part of a value, scaled from their range to -1 to 1, and whether they are whole."""
    if isinstance(space, spaces.Dict):
        return [part for name, inner in space.spaces.items() for part in parts(inner, value[name])]
    if isinstance(space, spaces.Tuple):
        return [part for inner, one in zip(space.spaces, value, strict=True) for part in parts(inner, one)]
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, spaces.MultiBinary):
        low, high = 0, 1
    else:
        size = space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n
        low, high = space.start, space.start + size - 1
    numbers = np.ravel((value - low) / (high - low) * 2 - 1).astype(np.float64)
    return [(numbers, np.full(len(numbers), not isinstance(space, spaces.Box)))]


gymnasium.register("Choose-v0", Choose)
