"""The interface of a replay: which of the unrolls in memory it holds, and which of them it samples."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from kartrl.replay.unroll_memory import UnrollMemory


class Sample(NamedTuple):
    """Sampled unrolls."""

    serials: np.ndarray  # int64 [n]
    importance: np.ndarray  # float32 [n], factor of their losses


class Replay(ABC):
    """The base of all replays, one file each: a ring of slots, in which a new unroll replaces the oldest.

    Attributes:
        learns: whether `learn` has an effect.
    """

    learns: ClassVar[bool] = False

    def __init__(self, memory: UnrollMemory, capacity: int, generator: torch.Generator) -> None:
        self.memory, self._capacity, self.generator = memory, capacity, generator
        self.serials = np.full(capacity, -1, np.int64)  # by slot
        self._oldest, self._held = 0, 0  # slot of the oldest unroll, and number of unrolls from there on
        self.counts = np.zeros(capacity, np.int64)  # how often the unroll in each slot was drawn

    def __len__(self) -> int:
        """Number of unrolls held."""
        return self._held

    @property
    def newest(self) -> int:
        """Serial number of the newest unroll held, or -1."""
        return int(self.serials[self.slots()].max(initial=-1))

    def slots(self) -> np.ndarray:
        """Slots that hold an unroll, int64 [len(self)], starting from the oldest."""
        return (self._oldest + np.arange(self._held)) % self._capacity

    def insert(self, serials: np.ndarray) -> np.ndarray:
        """Hold unrolls of the memory, int64 [n]; return their slots, int64 [n]. If two share a slot, the last stays."""
        self.memory.hold(serials.tolist())
        slots = []
        for serial in serials.tolist():
            slots.append(self._slot_for_new())
            self._put(slots[-1], serial)
        return np.array(slots, np.int64)

    def drop_oldest(self) -> None:
        """Drop the oldest unroll, if there is any."""
        if self._held:
            self.memory.release([int(self.serials[self._oldest])])
            self._oldest = (self._oldest + 1) % self._capacity
            self._held -= 1

    def sample(self, unrolls: int) -> Sample:
        """Sample this many of the unrolls held, of which there is at least one."""
        slots, importance = self._draw(unrolls)
        np.add.at(self.counts, slots, 1)
        return Sample(self.serials[slots], importance)

    def learn(self, serials: np.ndarray, errors: np.ndarray) -> None:
        """Record the TD errors of an update's unrolls, float32 [n]; ignores unrolls that it does not hold."""
        assert not self.learns

    def scalars(self) -> dict[str, float]:
        """Scalars for the logger; their names are appended to the replay's own."""
        counts = self.counts[self.slots()]
        if not len(counts):
            return {}
        return {"drawn_mean": float(counts.mean()), "drawn_max": float(counts.max())}

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything but `beside`, as arrays whose shapes are determined by the replay's settings."""
        ring = np.array([self._oldest, self._held])
        return {"ring": ring, "serials": self.serials.copy(), "counts": self.counts.copy()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load a `state` of these shapes and dtypes into an empty replay, before its unrolls are restored.

        Raises:
            ValueError: the state is inconsistent. The replay is then unchanged.
        """
        oldest, held = state["ring"].tolist()
        if not (0 <= oldest < self._capacity and 0 <= held <= self._capacity and (state["counts"] >= 0).all()):
            raise ValueError("a ring or its counts")
        serials = state["serials"][(oldest + np.arange(held)) % self._capacity]
        if (serials < 0).any() or len(np.unique(serials)) != held:
            raise ValueError("the unrolls of a ring")
        self._oldest, self._held, self.serials, self.counts = oldest, held, state["serials"], state["counts"]
        self.memory.hold(serials.tolist())

    def beside(self, serials: np.ndarray) -> dict[str, np.ndarray]:
        """Data that it stores with each of these unrolls and never changes, [n, ...]; zeros for unrolls not held."""
        return {}

    def load_beside(self, serials: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        """Restore the result of `beside` for these unrolls, which are in memory again.

        Raises:
            ValueError: the shapes are not this replay's.
            KeyError: something is missing.
        """
        assert not arrays

    @abstractmethod
    def _draw(self, unrolls: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the slots of n unrolls, int64 [n], and their importance, float32 [n]."""

    def _slot_for_new(self) -> int:
        """Return an empty slot, dropping the oldest unroll if there is none."""
        if self._held == self._capacity:
            self.drop_oldest()
        self._held += 1
        return (self._oldest + self._held - 1) % self._capacity

    def _put(self, slot: int, serial: int) -> None:
        """Fill a slot."""
        self.serials[slot], self.counts[slot] = serial, 0

    def _evenly(self, number: int) -> np.ndarray:
        """Draw slots uniformly with replacement, int64 [number]."""
        drawn = torch.randint(self._held, (number,), generator=self.generator).numpy()
        return (self._oldest + drawn) % self._capacity
