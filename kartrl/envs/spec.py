"""What the rest of kartrl needs to know of an environment, as data: shapes and bounds."""

from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.errors import UserError


class ActionSpec(NamedTuple):
    """An environment's action space."""

    kind: Literal["discrete", "continuous"]
    size: int  # number of actions to choose from, or of dimensions
    low: tuple[float, ...] = ()  # bounds of each dimension, for continuous actions only
    high: tuple[float, ...] = ()

    @classmethod
    def of(cls, space: gymnasium.Space[Any]) -> "ActionSpec":
        """The `ActionSpec` of a space.

        Raises:
            UserError: it is neither Discrete nor a vector of bounded floats.
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
        """Number of columns of an action."""
        return 1 if self.kind == "discrete" else self.size

    def taken(self, decision: np.ndarray) -> np.ndarray:
        """Actions to take for decisions [G, K]: int64 [G], or float32 [G, size] with -1 to 1 scaled to the bounds."""
        if self.kind == "discrete":
            return decision[:, 0].astype(np.int64)
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        return low + (decision[:, : self.size] + 1) * (0.5 * (high - low))

    @property
    def title(self) -> str:
        """For display: `6 actions` or `2 continuous actions`."""
        return f"{self.size} {'continuous ' if self.kind == 'continuous' else ''}action{'s' if self.size > 1 else ''}"

    def sample(self, random: np.random.Generator, number: int) -> np.ndarray:
        """Sample actions uniformly: int64 [number], or float32 [number, D] within the bounds up to rounding."""
        if self.kind == "discrete":
            return random.integers(0, self.size, number)
        return random.uniform(self.low, self.high, (number, self.size)).astype(np.float32)


class EnvSpec(NamedTuple):
    """Properties of an environment, determined before training."""

    title: str
    observation_shape: tuple[int, ...]  # [H, W, C] of an image, [D] of a vector
    observation_dtype: str  # uint8 or float32
    action: ActionSpec
    step_seconds: float  # per step in one process; 0 if not measured because no size depends on it
    mirrored: tuple[int, ...] = ()  # for each action, the one that does the same in a mirrored image; (): unknown
    left_out: tuple[str, ...] = ()  # names of the text parts of its observations, which networks do not read


def describe(space: gymnasium.Space[Any]) -> str:
    """The space on one line, shortened: NumPy spreads long bounds over several."""
    text = " ".join(str(space).split())
    return text if len(text) <= 160 else text[:157] + "..."
