"""The common part of attentive and elite replay: candidates are drawn, and the best of them by a distance sampled."""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from kartrl.replay.distances import Distance
from kartrl.replay.replay import Replay
from kartrl.replay.strategies import choose
from kartrl.replay.unroll_memory import UnrollMemory

Embed = Callable[[np.ndarray], np.ndarray]  # observations [N, ...] -> current features of the learner's network [N, F]


class Choice(NamedTuple):
    """How candidates are drawn and chosen."""

    embed: Embed
    distance: Distance
    strategy: int  # see `choose`
    candidates: Callable[[], float]  # current lambda: candidates per sampled unroll
    challengers: int  # of elite insertion; 0: a new unroll replaces the oldest


class CandidateReplay(Replay):
    """Draws floor(lambda n) candidates uniformly with replacement, and takes n; with lambda 1 they are the sample.

    With elite insertion, once all slots are taken, a new unroll replaces the farthest of `challengers` unrolls drawn
    without replacement. Their distances are those measured when each was last a candidate, also with lambda 1, and 0
    until then: measuring them for every new unroll would take a forward pass over as many unrolls. If none has ever
    been a candidate, the oldest is replaced.
    """

    def __init__(self, memory: UnrollMemory, capacity: int, generator: torch.Generator, choice: Choice) -> None:
        super().__init__(memory, capacity, generator)
        self._choice = choice
        self.distances = np.zeros(capacity, np.float32)
        self._distance = 0.0  # mean over the newest candidates

    @abstractmethod
    def measure(self, slots: np.ndarray) -> np.ndarray:
        """Distances of the unrolls in these slots, int64 [n]: float32 [n]."""

    def scalars(self) -> dict[str, float]:
        return super().scalars() | {"distance": self._distance, "candidates": self._choice.candidates()}

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {"distances": self.distances.copy(), "distance": np.array([self._distance])}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        if not all(np.isfinite(state[name]).all() for name in ("distances", "distance")):
            raise ValueError("distances")
        super().load_state(state)
        self.distances, self._distance = state["distances"], float(state["distance"][0])

    def _draw(self, unrolls: int) -> tuple[np.ndarray, np.ndarray]:
        drawn = self._evenly(max(unrolls, int(self._choice.candidates() * unrolls)))
        if len(drawn) > unrolls or self._choice.challengers:
            slots, where = np.unique(drawn, return_inverse=True)
            distances = self.distances[slots] = self.measure(slots)
            self._distance = float(distances.mean())
            if len(drawn) > unrolls:
                drawn = choose(self._choice.strategy, unrolls, drawn, distances[where], self.counts[drawn])
        return drawn, np.ones(unrolls, np.float32)

    def _embed(self, serials: np.ndarray) -> np.ndarray:
        """Current features of the unrolls' T states, without the bootstrap state: float32 [n, T, F]."""
        observation = self.memory.observations(serials)[:-1]
        features = self._choice.embed(observation.reshape(-1, *observation.shape[2:]))
        return features.reshape(*observation.shape[:2], -1).swapaxes(0, 1)

    def _slot_for_new(self) -> int:
        if not self._choice.challengers or len(self) < self._capacity:
            return super()._slot_for_new()
        challengers = torch.randperm(self._capacity, generator=self.generator).numpy()[: self._choice.challengers]
        slot = int(challengers[np.lexsort((self.serials[challengers], -self.distances[challengers]))[0]])
        self.memory.release([int(self.serials[slot])])
        return slot

    def _put(self, slot: int, serial: int) -> None:
        super()._put(slot, serial)
        self.distances[slot] = 0.0
