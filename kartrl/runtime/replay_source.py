"""Sources of training batches that mix fresh unrolls with replayed ones."""

import threading
from collections import deque
from fractions import Fraction

import numpy as np
import torch

from kartrl.learning.learner import Update
from kartrl.metrics.stopwatch import Stopwatch
from kartrl.replay import Mixture
from kartrl.runtime.batch_source import BatchSource
from kartrl.trajectory import Trajectory, joined


class ReplaySource:
    """A source whose fresh batches all replays get; what is drawn may be of the newest of them.

    Inserting and drawing are the stage replay. With two trainer threads they go on beside the update of the other.

    Args:
        source: of fresh batches.
        mixture: of the replays.
        start: steps that have come in before any is drawn.
        stop: ends the run.
    """

    def __init__(self, source: BatchSource, mixture: Mixture, start: int, stop: threading.Event) -> None:
        self._source, self._mixture, self._start, self._stop = source, mixture, start, stop
        self._errors: deque[tuple[np.ndarray, np.ndarray]] = deque()  # of updates, for `Mixture.learn`

    @property
    def dropped(self) -> int:
        """See `BatchSource`."""
        return self._source.dropped

    def _fresh(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        """The next fresh batch, which the replays now hold too."""
        batch = self._source.next(stopwatch)
        if batch is None:
            return None
        with self._mixture.lock:
            self._take_in_errors()
            return self._mixture.insert(batch)

    def _sample(self, of: int) -> Trajectory[np.ndarray]:
        with self._mixture.lock:
            self._take_in_errors()
            return self._mixture.sample(of)

    def _take_in_errors(self) -> None:
        while self._errors:
            self._mixture.learn(*self._errors.popleft())

    def _ready(self) -> bool:
        return self._mixture.inserted >= self._start

    def _learn(self, update: Update | None) -> None:
        """Errors are taken in before anything is drawn again: the learner never waits for another thread that draws."""
        if update is not None and self._mixture.learns:
            self._errors.append(update.td_errors())


class MixedSource(ReplaySource):
    """Batches of which the queue's share is fresh; until the replays hold enough, all that they hold is.

    Args:
        queue: the share of the queue.
    """

    def __init__(
        self, source: BatchSource, mixture: Mixture, start: int, stop: threading.Event, queue: Fraction
    ) -> None:
        super().__init__(source, mixture, start, stop)
        self._queue = queue

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        """See `BatchSource`."""
        batch = self._fresh(stopwatch)
        if batch is not None and self._ready():
            batch = joined(batch, self._sample(int(len(batch.online) / self._queue)))
        stopwatch.lap("replay")
        return batch

    def published(self, update: Update | None = None) -> None:
        """See `BatchSource`."""
        self._learn(update)
        self._source.published()


class AlternatingSource(ReplaySource):
    """After each fresh batch a number of replayed ones that is drawn from the Poisson distribution, all of its size.

    As in ACER's algorithm 1 (arXiv:1611.01224). What the source holds is given back when the last batch that follows
    has been learned from.

    Args:
        ratio: mean number of replayed batches.
        generator: draws the numbers.
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
        self._to_come = 0  # replayed batches
        self._unrolls = 0  # of the fresh batch before
        self._out: deque[bool] = deque()  # of the batches whose updates are not published: whether a fresh one is next

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        """See `BatchSource`."""
        if self._stop.is_set():
            return None
        if self._to_come:
            self._to_come -= 1
            batch = self._sample(self._unrolls)
        else:
            fresh = self._fresh(stopwatch)
            if fresh is None:
                return None
            batch, self._unrolls = fresh, len(fresh.online)
            if self._ready():
                self._to_come = int(torch.poisson(self._ratio, generator=self._generator))
        self._out.append(self._to_come == 0)
        stopwatch.lap("replay")
        return batch

    def published(self, update: Update | None = None) -> None:
        """See `BatchSource`."""
        self._learn(update)
        if self._out.popleft():
            self._source.published()
