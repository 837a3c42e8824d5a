"""All replays of a run, sharing one memory."""

import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from kartrl.metrics.stopwatch import Stopwatch
from kartrl.replay.replay import Replay
from kartrl.replay.unroll_memory import MemoryShape, UnrollMemory
from kartrl.trajectory import Trajectory


class Part(NamedTuple):
    """A replay in a mixture."""

    name: str
    replay: Replay
    share: Fraction  # of the batch


class Mixture:
    """Inserts every fresh unroll into every replay, and samples from each its share.

    Attributes:
        lock: with several threads, hold it to call any method but `scalars`.
        learns: whether any replay uses TD errors.
    """

    def __init__(self, memory: UnrollMemory, parts: Sequence[Part]) -> None:
        self.memory, self.parts = memory, parts
        self.lock = threading.Lock()
        self.learns = any(part.replay.learns for part in parts)
        self._stopwatch = Stopwatch(("other", "insert", *(part.name for part in parts), "read"))
        self._batches, self._drawn = 0, 0  # sampled so far, and their steps
        self._told = (time.perf_counter(), 0, 0, self._stopwatch.seconds.copy())  # at the last call of `scalars`

    @property
    def inserted(self) -> int:
        """Number of steps inserted so far."""
        return self.memory.inserted * self.memory.shape.unroll_length

    def insert(self, trajectory: Trajectory[np.ndarray]) -> Trajectory[np.ndarray]:
        """Insert unrolls, replacing older ones, and return them with their serial numbers."""
        self._stopwatch.lap("other")
        serials = self.memory.insert(trajectory, self._make_room)
        stored = serials[serials >= 0]
        self.memory.hold(stored.tolist())  # a replay smaller than the batch drops some before the next holds them
        for part in self.parts:
            part.replay.insert(stored)
        self.memory.release(stored.tolist())
        self._stopwatch.lap("insert")
        return trajectory._replace(serial=serials)

    def _make_room(self) -> None:
        """Drop the oldest unrolls until another one fits."""
        while not self.memory.has_room() and any(len(part.replay) for part in self.parts):
            for part in self.parts:
                part.replay.drop_oldest()

    def sample(self, of: int) -> Trajectory[np.ndarray]:
        """Sample a batch of `of` unrolls, not `online`, from each replay its share, which must be whole unrolls."""
        samples = []
        self._stopwatch.lap("other")
        for part in self.parts:
            samples.append(part.replay.sample(int(part.share * of)))
            self._stopwatch.lap(part.name)
        trajectory = self.memory.read(np.concatenate([sample.serials for sample in samples]))
        self._stopwatch.lap("read")
        self._batches += 1
        self._drawn += trajectory.valid.size
        return trajectory._replace(importance=np.concatenate([sample.importance for sample in samples]))

    def learn(self, serials: np.ndarray, errors: np.ndarray) -> None:
        """Pass the TD errors of an update's unrolls, float32 [n], to every replay."""
        for part in self.parts:
            part.replay.learn(serials, errors)

    @property
    def shape(self) -> MemoryShape:
        """Shape of the memory."""
        return self.memory.shape

    @property
    def held(self) -> int:
        """Number of steps held."""
        return len(self.memory) * self.shape.unroll_length

    def serials(self) -> np.ndarray:
        """Serial numbers of the unrolls held, int64 [any], ascending."""
        return self.memory.serials()

    def export(self, serials: np.ndarray) -> dict[str, np.ndarray]:
        """A copy of these unrolls, int64 [n], with all data stored with them that never changes."""
        beside = {
            f"{part.name}/{name}": array for part in self.parts for name, array in part.replay.beside(serials).items()
        }
        return self.memory.export(serials) | beside

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything else, as arrays whose shapes are determined by the configuration."""
        parts = {f"{part.name}/{name}": array for part in self.parts for name, array in part.replay.state().items()}
        return {"inserted": np.array([self.memory.inserted])} | parts

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load a `state` into an empty mixture, before its unrolls are restored. If this fails, call `forget`.

        Raises:
            ValueError: the state is of another mixture or inconsistent.
        """
        if _types(state) != _types(self.state()):
            raise ValueError("its replays are not those of [replay]")
        inserted = int(state["inserted"][0])
        for part in self.parts:
            mine = {name: state[f"{part.name}/{name}"].copy() for name in part.replay.state()}
            part.replay.load_state(mine)
            if part.replay.newest >= inserted:
                raise ValueError("an unroll that was never added")
        self.memory.inserted = inserted

    def restore(self, unrolls: dict[str, np.ndarray]) -> None:
        """Restore exported unrolls, as far as any replay holds them; if there is no room, the oldest are dropped.

        Raises:
            ValueError: they are not of this mixture.
            KeyError: something is missing.
        """
        self.memory.restore(unrolls, self._make_room)
        for part in self.parts:
            prefix = f"{part.name}/"
            mine = {name.removeprefix(prefix): array for name, array in unrolls.items() if name.startswith(prefix)}
            part.replay.load_beside(unrolls["serial"], mine)

    def missing(self) -> int:
        """Number of unrolls yet to be restored."""
        return self.memory.missing()

    def forget(self) -> None:
        """Drop everything."""
        for part in self.parts:
            while len(part.replay):
                part.replay.drop_oldest()
        self.memory.inserted = 0

    def scalars(self) -> dict[str, float]:
        """Scalars for the logger: `system/replay_...`, and speeds since the last call.

        `time/replay_..._seconds` are the times per sampled batch: to sample from each replay, to read the sampled
        unrolls, and to insert those that arrived in the meantime.
        """
        values: dict[str, float] = {}
        for part in self.parts:
            values |= {f"{part.name}_{name}": value for name, value in part.replay.scalars().items()}
        values |= {"steps": float(self.held), "gigabytes": self.memory.size / 1e9}
        (then, batches, drawn, before), now = self._told, time.perf_counter()
        self._told = (now, self._batches, self._drawn, self._stopwatch.seconds.copy())
        each = (self._told[3] - before) / max(self._batches - batches, 1)
        times = dict(zip(self._stopwatch.stages, each.tolist(), strict=True))
        return (
            {f"system/replay_{name}": value for name, value in values.items()}
            | {f"time/replay_{name}_seconds": value for name, value in times.items() if name != "other"}
            | {"speed/replayed_steps_per_second": (self._drawn - drawn) / (now - then)}
        )


def _types(state: dict[str, np.ndarray]) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    return {name: (array.dtype, array.shape) for name, array in state.items()}
