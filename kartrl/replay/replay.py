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

    @property
    def newest(self) -> int:
        """Serial number of the newest unroll that it holds, or -1."""
        return int(self._serials[self.slots()].max(initial=-1))

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

    def state(self) -> dict[str, np.ndarray]:
        """A copy of all but what `beside` has: arrays whose shapes the replay's settings determine."""
        ring = np.array([self._oldest, self._held])
        return {"ring": ring, "serials": self._serials.copy(), "counts": self._counts.copy()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from a `state`, of these shapes and types; it must hold nothing, and its unrolls are to come.

        Raises:
            ValueError: it makes no sense. The replay is then as it was.
        """
        oldest, held = state["ring"].tolist()
        if not (0 <= oldest < self._capacity and 0 <= held <= self._capacity and (state["counts"] >= 0).all()):
            raise ValueError("a ring or its counts")
        serials = state["serials"][(oldest + np.arange(held)) % self._capacity]
        if (serials < 0).any() or len(np.unique(serials)) != held:
            raise ValueError("the unrolls of a ring")
        self._oldest, self._held, self._serials, self._counts = oldest, held, state["serials"], state["counts"]
        self._memory.hold(serials.tolist())

    def beside(self, serials: np.ndarray) -> dict[str, np.ndarray]:
        """What it keeps of each of these unrolls and never changes, [n, ...]; zeros for those that it does not hold."""
        return {}

    def load_beside(self, serials: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `beside` gave of these unrolls, which the memory holds again.

        Raises:
            ValueError: it is of other shapes than this replay's.
            KeyError: something is missing.
        """
        assert not arrays

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
