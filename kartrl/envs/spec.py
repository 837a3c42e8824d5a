"""What the rest of kartrl knows of an environment: the shapes and bounds of what travels, as data."""

from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.errors import UserError


class ActionSpec(NamedTuple):
    """What an agent may do at each step."""

    kind: Literal["discrete", "continuous"]
    size: int  # number of actions to choose from, or of dimensions
    low: tuple[float, ...] = ()  # bounds of each dimension, of continuous actions only
    high: tuple[float, ...] = ()

    @classmethod
    def of(cls, space: gymnasium.Space[Any]) -> "ActionSpec":
        """What these actions are.

        Raises:
            UserError: neither Discrete nor a vector of bounded floats.
        """
        if isinstance(space, spaces.Discrete):
            return cls("discrete", int(space.n))
        if isinstance(space, spaces.Box):
            vector = space.dtype.kind == "f" and len(space.shape) == 1 and space.shape[0] > 0
            if vector and space.is_bounded() and (space.low < space.high).all():
                return cls("continuous", space.shape[0], tuple(space.low.tolist()), tuple(space.high.tolist()))
        raise UserError(
            f"its actions are {describe(space)}; kartrl takes Discrete ones, and Box ones that are a vector of floats "
            "with finite bounds, low < high"
        )

    @property
    def columns(self) -> int:
        """Numbers that one action takes."""
        return 1 if self.kind == "discrete" else self.size

    def taken(self, decision: np.ndarray) -> np.ndarray:
        """The actions in decisions [G, K]: int64 [G], or float32 [G, size], of which -1 to 1 are the bounds."""
        if self.kind == "discrete":
            return decision[:, 0].astype(np.int64)
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        return low + (decision[:, : self.size] + 1) * (0.5 * (high - low))

    @property
    def title(self) -> str:
        """For people: `6 actions` or `2 continuous actions`."""
        return f"{self.size} {'continuous ' if self.kind == 'continuous' else ''}action{'s' if self.size > 1 else ''}"

    def sample(self, random: np.random.Generator, number: int) -> np.ndarray:
        """Actions drawn uniformly: int64 [number], or float32 [number, D] within the bounds but for rounding."""
        if self.kind == "discrete":
            return random.integers(0, self.size, number)
        return random.uniform(self.low, self.high, (number, self.size)).astype(np.float32)


class EnvSpec(NamedTuple):
    """What there is to know of an environment before it is trained on."""

    title: str
    observation_shape: tuple[int, ...]  # [H, W, C] of an image, [D] of a vector
    observation_dtype: str  # uint8 or float32
    action: ActionSpec
    step_seconds: float  # of one step in one process; 0 where no size depends on it
    left_out: tuple[str, ...] = ()  # names of parts of its observations that are words, which no network here reads


def describe(space: gymnasium.Space[Any]) -> str:
    """The space in one line, shortened: NumPy spreads long bounds over many."""
    text = " ".join(str(space).split())
    return text if len(text) <= 160 else text[:157] + "..."
