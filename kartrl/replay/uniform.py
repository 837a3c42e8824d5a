"""Uniform replay, as in ACER (arXiv:1611.01224) and in DQN (Nature 518)."""

import numpy as np
import torch

from kartrl.replay.unroll_memory import UnrollMemory
from kartrl.trajectory import Trajectory


class UniformReplay:
    """Draws each of the unrolls that are held with the same probability, with replacement.

    Args:
        memory: of the unrolls.
        generator: draws.
    """

    def __init__(self, memory: UnrollMemory, generator: torch.Generator) -> None:
        self._memory, self._generator = memory, generator
        self._places = memory.places()

    @property
    def steps(self) -> int:
        """See `Replay`."""
        return len(self._places) * self._memory.shape.unroll_length

    def insert(self, trajectory: Trajectory[np.ndarray]) -> None:
        """See `Replay`."""
        self._memory.insert(trajectory)
        self._places = self._memory.places()

    def sample(self, unrolls: int) -> Trajectory[np.ndarray]:
        """See `Replay`."""
        drawn = torch.randint(len(self._places), (unrolls,), generator=self._generator)
        return self._memory.read(self._places[drawn.numpy()])

    def scalars(self) -> dict[str, float]:
        """See `Replay`: what it holds of what it may."""
        shape = self._memory.shape
        full = self.steps / (shape.unrolls * shape.unroll_length)
        return {"system/replay_steps": float(self.steps), "system/replay_gigabytes": full * shape.size() / 1e9}
