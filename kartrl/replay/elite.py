"""Elite replay: unrolls whose states the network still sees as it did when they were new."""

import numpy as np
import torch

from kartrl.replay.candidates import CandidateReplay, Choice
from kartrl.replay.unroll_memory import UnrollMemory


class EliteReplay(CandidateReplay):
    """Far is what the network's features have changed on since the unroll came in.

    Features are the output of the encoder's last layer. Those of then are kept, and are of the learner's network when
    the unroll was inserted, not of the somewhat older copy that acted.
    """

    def __init__(self, memory: UnrollMemory, capacity: int, generator: torch.Generator, choice: Choice) -> None:
        super().__init__(memory, capacity, generator, choice)
        self._features = np.zeros((capacity, 0, 0), np.float32)  # by slot, [T, F], once their size is known

    def insert(self, serials: np.ndarray) -> np.ndarray:
        """See `Replay`."""
        if not len(serials):
            return super().insert(serials)
        features = self._embed(serials)
        if not self._features.size:
            self._features = np.zeros((self._capacity, *features.shape[1:]), np.float32)  # takes memory as it fills
        slots = super().insert(serials)
        self._features[slots] = features
        return slots

    def _measure(self, slots: np.ndarray) -> np.ndarray:
        """See `CandidateReplay`."""
        return self._choice.distance(self._embed(self._serials[slots]), self._features[slots])
