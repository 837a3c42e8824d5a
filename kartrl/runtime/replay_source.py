"""A source of training batches that mixes fresh ones with replayed ones."""

import threading
from collections import deque

import numpy as np
import torch

from kartrl.config.algorithms import Replaying
from kartrl.metrics.stopwatch import Stopwatch
from kartrl.replay import Replay
from kartrl.runtime.batch_source import BatchSource
from kartrl.trajectory import Trajectory


class ReplaySource:
    """After each fresh batch a number of replayed ones that is drawn from the Poisson distribution, all of its size.

    What is replayed may hold the fresh batch too, as in ACER's algorithm 1 (arXiv:1611.01224).

    Args:
        source: of fresh batches; what it holds is given back when the last batch that follows has been learned from.
        replay: gets all fresh batches.
        section: mean number of replayed batches, and steps that the replay holds before any.
        generator: draws the numbers.
        stop: ends the run.
    """

    def __init__(
        self,
        source: BatchSource,
        replay: Replay,
        section: Replaying,
        generator: torch.Generator,
        stop: threading.Event,
    ) -> None:
        self._source, self._replay, self._section = source, replay, section
        self._ratio = torch.tensor(section.replay_ratio)
        self._generator, self._stop = generator, stop
        self._to_come = 0  # replayed batches
        self._unrolls = 0  # of the fresh batch before
        self._out: deque[bool] = deque()  # of the batches whose updates are not published: whether a fresh one is next

    @property
    def dropped(self) -> int:
        """See `BatchSource`."""
        return self._source.dropped

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        """See `BatchSource`; inserting and drawing are the stage replay."""
        if self._stop.is_set():
            return None
        if self._to_come:
            self._to_come -= 1
            batch = self._replay.sample(self._unrolls)
        else:
            fresh = self._source.next(stopwatch)
            if fresh is None:
                return None
            batch, self._unrolls = fresh, len(fresh.online)
            self._replay.insert(batch)
            if self._replay.steps >= self._section.replay_start:
                self._to_come = int(torch.poisson(self._ratio, generator=self._generator))
        self._out.append(self._to_come == 0)
        stopwatch.lap("replay")
        return batch

    def published(self) -> None:
        """See `BatchSource`."""
        if self._out.popleft():
            self._source.published()
