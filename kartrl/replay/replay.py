"""What a replay is: which of the unrolls in memory it holds, and which of them it draws again."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from kartrl.replay.unroll_memory import UnrollMemory


class Sample(NamedTuple):
    """Unrolls that were drawn."""

    serials: np.ndarray  # int64 [n]
    importance: np.ndarray  # float32 [n], by which their losses are multiplied


class Replay(ABC):
    """The base of all replays, one file each: a ring of slots, in which a new unroll takes the place of the oldest.

    Args:
        memory: of the unrolls.
        capacity: unrolls that it holds at most.
        generator: draws.

    Attributes:
        learns: `learn` does something.
    """

    learns: ClassVar[bool] = False

    def __init__(self, memory: UnrollMemory, capacity: int, generator: torch.Generator) -> None:
        self._memory, self._capacity, self._generator = memory, capacity, generator
        self._serials = np.full(capacity, -1, np.int64)  # by slot
        self._oldest, self._held = 0, 0  # slot, and number of unrolls from there on
        self._counts = np.zeros(capacity, np.int64)  # how often the unroll in each slot was drawn

    def __len__(self) -> int:
        """Unrolls that it holds."""
        return self._held

    def slots(self) -> np.ndarray:
        """Slots that hold an unroll, int64 [len(self)], those of the oldest ones first."""
        return (self._oldest + np.arange(self._held)) % self._capacity

    def insert(self, serials: np.ndarray) -> np.ndarray:
        """Hold these unrolls of the memory, int64 [n]; their slots, int64 [n], the later of two in the same."""
        self._memory.hold(serials.tolist())
        slots = []
        for serial in serials.tolist():
            slots.append(self._slot_for_new())
            self._put(slots[-1], serial)
        return np.array(slots, np.int64)

    def drop_oldest(self) -> None:
        """Let go of the oldest unroll, if it holds any."""
        if self._held:
            self._memory.release([int(self._serials[self._oldest])])
            self._oldest = (self._oldest + 1) % self._capacity
            self._held -= 1

    def sample(self, unrolls: int) -> Sample:
        """So many unrolls of those that it holds, which is one at least."""
        slots, importance = self._draw(unrolls)
        np.add.at(self._counts, slots, 1)
        return Sample(self._serials[slots], importance)

    def learn(self, serials: np.ndarray, errors: np.ndarray) -> None:
        """Take in how large the TD errors of unrolls were in an update, float32 [n]; others than its own may come."""
        assert not self.learns

    def scalars(self) -> dict[str, float]:
        """For the logger, by names that are put behind the replay's own."""
        counts = self._counts[self.slots()]
        if not len(counts):
            return {}
        return {"drawn_mean": float(counts.mean()), "drawn_max": float(counts.max())}

    @abstractmethod
    def _draw(self, unrolls: int) -> tuple[np.ndarray, np.ndarray]:
        """Slots of so many unrolls, int64 [n], and their importance, float32 [n]."""

    def _slot_for_new(self) -> int:
        """An empty slot."""
        if self._held == self._capacity:
            self.drop_oldest()
        self._held += 1
        return (self._oldest + self._held - 1) % self._capacity

    def _put(self, slot: int, serial: int) -> None:
        """Fill a slot."""
        self._serials[slot], self._counts[slot] = serial, 0

    def _evenly(self, number: int) -> np.ndarray:
        """So many slots, int64 [number], each drawn with the same probability, with replacement."""
        drawn = torch.randint(self._held, (number,), generator=self._generator).numpy()
        return (self._oldest + drawn) % self._capacity
