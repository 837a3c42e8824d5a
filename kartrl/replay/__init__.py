"""Replays: what they keep of unrolls, and which of them they draw again."""

from typing import Protocol

import numpy as np

from kartrl.replay.uniform import UniformReplay
from kartrl.replay.unroll_memory import MemoryShape, UnrollMemory
from kartrl.trajectory import Trajectory

__all__ = ["MemoryShape", "Replay", "UniformReplay", "UnrollMemory"]


class Replay(Protocol):
    """Keeps unrolls, and draws some of them again.

    Attributes:
        steps: that it holds.
    """

    @property
    def steps(self) -> int: ...

    def insert(self, trajectory: Trajectory[np.ndarray]) -> None:
        """Keep these unrolls, in place of the oldest ones."""

    def sample(self, unrolls: int) -> Trajectory[np.ndarray]:
        """So many unrolls of those that it holds, not `online`."""

    def scalars(self) -> dict[str, float]:
        """For the logger: `system/replay_...`."""
