"""Elite replay: unrolls whose features have changed least since insertion."""

import numpy as np
import torch

from kartrl.replay.candidates import CandidateReplay, Choice
from kartrl.replay.unroll_memory import UnrollMemory


class EliteReplay(CandidateReplay):
    """The distance is how much the network's features of an unroll's states have changed since insertion.

    Features are the output of the encoder's last layer. The stored ones are those of the learner's network at
    insertion, not of the slightly older copy that acted.
    """

    def __init__(self, memory: UnrollMemory, capacity: int, generator: torch.Generator, choice: Choice) -> None:
        super().__init__(memory, capacity, generator, choice)
        self._features = np.zeros((capacity, 0, 0), np.float32)  # by slot, [T, F] once their size is known

    def insert(self, serials: np.ndarray) -> np.ndarray:
        if not len(serials):
            return super().insert(serials)
        features = self._embed(serials)
        self._make_features(features.shape[1:])
        slots = super().insert(serials)
        self._features[slots] = features
        return slots

    def beside(self, serials: np.ndarray) -> dict[str, np.ndarray]:
        features = np.zeros((len(serials), *self._features.shape[1:]), np.float32)
        slots, held = self._slots_of(serials)
        features[held] = self._features[slots]
        return {"features": features}

    def load_beside(self, serials: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        slots, held = self._slots_of(serials)
        if not len(slots):
            return
        if not self._features.size:
            self._make_features(self._embed(serials[held][:1]).shape[1:])
        features = arrays["features"]
        if features.shape != (len(serials), *self._features.shape[1:]) or features.dtype != np.float32:
            raise ValueError("features of another network")
        self._features[slots] = features[held]

    def _slots_of(self, serials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slots of the unrolls that this replay holds, int64 [any], and which of `serials` these are, bool [n]."""
        slots = self.slots()
        slots = slots[np.argsort(self.serials[slots])]
        if not len(slots):
            return slots, np.zeros(len(serials), bool)
        near = slots[np.minimum(np.searchsorted(self.serials[slots], serials), len(slots) - 1)]
        held = self.serials[near] == serials
        return near[held], held

    def _make_features(self, shape: tuple[int, ...]) -> None:
        """Allocate memory for the features, if not done yet."""
        if not self._features.size:
            self._features = np.zeros((self._capacity, *shape), np.float32)  # takes memory as it fills

    def measure(self, slots: np.ndarray) -> np.ndarray:
        return self._choice.distance(self._embed(self.serials[slots]), self._features[slots])
