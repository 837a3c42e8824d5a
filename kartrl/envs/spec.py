"""What the rest of kartrl knows of an environment: the shapes and bounds of what travels, as data."""

from typing import Literal, NamedTuple

import numpy as np


class ActionSpec(NamedTuple):
    """What an agent may do at each step."""

    kind: Literal["discrete", "continuous"]
    size: int  # number of actions to choose from, or of dimensions
    low: tuple[float, ...] = ()  # bounds of each dimension, of continuous actions only
    high: tuple[float, ...] = ()

    @property
    def columns(self) -> int:
        """Numbers that one action takes."""
        return 1 if self.kind == "discrete" else self.size

    def taken(self, decision: np.ndarray) -> np.ndarray:
        """The actions in decisions [G, K]: int64 [G], or float32 [G, size] of continuous ones."""
        return decision[:, 0].astype(np.int64) if self.kind == "discrete" else decision[:, : self.size]


class EnvSpec(NamedTuple):
    """What there is to know of an environment before it is trained on."""

    title: str
    observation_shape: tuple[int, ...]  # [H, W, C] of an image, [D] of a vector
    observation_dtype: str  # uint8 or float32
    action: ActionSpec
    step_seconds: float  # of one step in one process; 0 where no size depends on it
