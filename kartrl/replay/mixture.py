"""All replays of a run, on one memory."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from kartrl.replay.replay import Replay
from kartrl.replay.unroll_memory import UnrollMemory
from kartrl.trajectory import Trajectory


class Part(NamedTuple):
    """A replay in a mixture."""

    name: str
    replay: Replay
    share: Fraction  # of the batch


class Mixture:
    """Hands every fresh unroll to every replay, and draws from each its share.

    Args:
        memory: of the unrolls.
        parts: the replays.

    Attributes:
        learns: any replay is to be told TD errors.
    """

    def __init__(self, memory: UnrollMemory, parts: Sequence[Part]) -> None:
        self._memory, self._parts = memory, parts
        self.learns = any(part.replay.learns for part in parts)

    @property
    def inserted(self) -> int:
        """Steps that have come in so far."""
        return self._memory.inserted * self._memory.shape.unroll_length

    def insert(self, trajectory: Trajectory[np.ndarray]) -> Trajectory[np.ndarray]:
        """Keep these unrolls, in place of older ones; the same, with their serial numbers."""
        serials = self._memory.insert(trajectory, self._make_room)
        for part in self._parts:
            part.replay.insert(serials[serials >= 0])
        return trajectory._replace(serial=serials)

    def _make_room(self) -> None:
        """Let go of the oldest unrolls until another one fits in."""
        while not self._memory.has_room() and any(len(part.replay) for part in self._parts):
            for part in self._parts:
                part.replay.drop_oldest()

    def sample(self, of: int) -> Trajectory[np.ndarray]:
        """From each replay its share of a batch of so many unrolls, not `online`; the shares must be whole unrolls."""
        samples = [part.replay.sample(int(part.share * of)) for part in self._parts]
        trajectory = self._memory.read(np.concatenate([sample.serials for sample in samples]))
        return trajectory._replace(importance=np.concatenate([sample.importance for sample in samples]))

    def learn(self, serials: np.ndarray, errors: np.ndarray) -> None:
        """Tell every replay the TD errors of unrolls in an update, float32 [n]."""
        for part in self._parts:
            part.replay.learn(serials, errors)

    def scalars(self) -> dict[str, float]:
        """For the logger: `system/replay_...`."""
        shape = self._memory.shape
        values: dict[str, float] = {}
        for part in self._parts:
            values |= {f"{part.name}_{name}": value for name, value in part.replay.scalars().items()}
        values |= {"steps": float(len(self._memory) * shape.unroll_length), "gigabytes": self._memory.size / 1e9}
        return {f"system/replay_{name}": value for name, value in values.items()}
