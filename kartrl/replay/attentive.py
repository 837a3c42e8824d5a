"""Attentive replay (Sun et al. 2020, arXiv:2002.08396, here of unrolls): samples what resembles the current state."""

import numpy as np
import torch

from kartrl.replay.candidates import CandidateReplay, Choice
from kartrl.replay.unroll_memory import UnrollMemory


class AttentiveReplay(CandidateReplay):
    """The distance is that of an unroll's states from the last state of the newest unroll, by their current features.

    Each of an unroll's T states is compared with that one state.
    """

    def __init__(self, memory: UnrollMemory, capacity: int, generator: torch.Generator, choice: Choice) -> None:
        super().__init__(memory, capacity, generator, choice)
        self._state = np.zeros((1, *memory.shape.observation.shape), memory.shape.observation.dtype)

    def insert(self, serials: np.ndarray) -> np.ndarray:
        if len(serials):
            self._state = self.memory.observations(serials[-1:])[-1]  # [1, ...]
        return super().insert(serials)

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {"state": self._state}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        super().load_state(state)
        self._state = state["state"]

    def measure(self, slots: np.ndarray) -> np.ndarray:
        features = self._embed(self.serials[slots])
        present = np.broadcast_to(self._choice.embed(self._state), features.shape)
        return self._choice.distance(features, present)
