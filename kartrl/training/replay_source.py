"""Sources of training batches that mix fresh unrolls with replayed ones."""

import threading
from collections import deque
from fractions import Fraction

import numpy as np
import torch

from kartrl.learning.learner import Update
from kartrl.metrics.stopwatch import Stopwatch
from kartrl.replay import Mixture
from kartrl.training.sources import BatchSource
from kartrl.trajectory import Trajectory, joined


class ReplaySource:
    """A source that inserts fresh batches into all replays; samples may include the newest of them.

    Inserting and sampling count as stage `replay`. With two trainer threads they run during the other's update.

    Args:
        mixture: the replays.
        start: steps to insert before any are sampled.
    """

    def __init__(self, source: BatchSource, mixture: Mixture, start: int, stop: threading.Event) -> None:
        self._source, self.mixture, self._start, self._stop = source, mixture, start, stop
        self._errors: deque[tuple[np.ndarray, np.ndarray]] = deque()  # TD errors of updates, for `Mixture.learn`

    @property
    def dropped(self) -> int:
        return self._source.dropped

    def _fresh(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        """The next fresh batch, after inserting it into the replays."""
        batch = self._source.next(stopwatch)
        if batch is None:
            return None
        with self.mixture.lock:
            self._take_in_errors()
            return self.mixture.insert(batch)

    def _sample(self, of: int) -> Trajectory[np.ndarray]:
        with self.mixture.lock:
            self._take_in_errors()
            return self.mixture.sample(of)

    def _take_in_errors(self) -> None:
        while self._errors:
            self.mixture.learn(*self._errors.popleft())

    def _ready(self) -> bool:
        return self.mixture.inserted >= self._start

    def _learn(self, update: Update | None) -> None:
        """Queue TD errors for the next thread that inserts or samples: the learner never waits for such a thread."""
        if update is not None and self.mixture.learns:
            self._errors.append(update.td_errors())


class MixedSource(ReplaySource):
    """Batches of which the queue's share is fresh; they are all fresh until the replays hold enough.

    Args:
        queue: the queue's share.
    """

    def __init__(
        self, source: BatchSource, mixture: Mixture, start: int, stop: threading.Event, queue: Fraction
    ) -> None:
        super().__init__(source, mixture, start, stop)
        self._queue = queue

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        batch = self._fresh(stopwatch)
        if batch is not None and self._ready():
            batch = joined(batch, self._sample(int(len(batch.online) / self._queue)))
        stopwatch.lap("replay")
        return batch

    def published(self, update: Update | None = None) -> None:
        self._learn(update)
        self._source.published()


class AlternatingSource(ReplaySource):
    """Follows each fresh batch by a Poisson-distributed number of replayed batches of the same size.

    As in ACER's algorithm 1 (arXiv:1611.01224). Blocks that the source holds are released when the last of these
    batches has been learned from.

    Args:
        ratio: mean number of replayed batches.
    """

    def __init__(
        self,
        source: BatchSource,
        mixture: Mixture,
        start: int,
        stop: threading.Event,
        ratio: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(source, mixture, start, stop)
        self._ratio, self._generator = torch.tensor(ratio), generator
        self.to_come = 0  # replayed batches
        self._unrolls = 0  # in the previous fresh batch
        self._out: deque[bool] = deque()  # for batches whose update is not published: whether a fresh one is next

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        if self._stop.is_set():
            return None
        if self.to_come:
            self.to_come -= 1
            batch = self._sample(self._unrolls)
        else:
            fresh = self._fresh(stopwatch)
            if fresh is None:
                return None
            batch, self._unrolls = fresh, len(fresh.online)
            if self._ready():
                self.to_come = int(torch.poisson(self._ratio, generator=self._generator))
        self._out.append(self.to_come == 0)
        stopwatch.lap("replay")
        return batch

    def published(self, update: Update | None = None) -> None:
        self._learn(update)
        if self._out.popleft():
            self._source.published()
