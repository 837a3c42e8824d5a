"""Sources of training batches: finished blocks of the slab, in the order that the algorithm or the run requires."""

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kartrl.acting.messages import Requests
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.slab import WAKE_SECONDS, Slab
from kartrl.learning.learner import Update
from kartrl.metrics.stopwatch import Stopwatch
from kartrl.trajectory import Trajectory


class BatchSource(Protocol):
    """Batches of unrolls. One thread at a time calls `next`, then `published` once the update is published.

    Attributes:
        dropped: unrolls dropped so far because they were too old to train on.
    """

    @property
    def dropped(self) -> int: ...

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        """The next batch; None when the run is stopping. Waiting counts as stage `idle`, copying as `gather`."""

    def published(self, update: Update | None = None) -> None:
        """Call when the newest batch's update has been made, or skipped (None), and its weights are published."""


class ArrivalSource:
    """Blocks in the order in which they finish; their memory is returned as soon as a batch is complete.

    Args:
        weights: their version determines how old a block is.
        max_lag: a block begun more than this many updates ago is dropped.
    """

    def __init__(self, slab: Slab, blocks: int, weights: PublishedWeights, max_lag: int, stop: threading.Event) -> None:
        self._slab, self._blocks, self._stop = slab, blocks, stop
        self._weights, self._max_lag = weights, max_lag
        self._chosen: list[int] = []
        self.dropped = 0

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        while len(self._chosen) < self._blocks:
            if self._stop.is_set():
                return None
            for block in self._slab.take_finished(self._blocks - len(self._chosen), WAKE_SECONDS):
                if self._weights.version - self._slab.version[block].min() > self._max_lag:
                    self._slab.release([block])
                    self.dropped += self._slab.group_size
                else:
                    self._chosen.append(block)
        stopwatch.lap("idle")
        chosen, self._chosen = self._chosen, []
        batch = self._slab.gather(chosen)
        self._slab.release(chosen)
        stopwatch.lap("gather")
        return batch

    def published(self, update: Update | None = None) -> None:
        """See `BatchSource`."""


class Held:
    """Base of sources that hold their blocks until the update is published."""

    dropped = 0

    def __init__(self, slab: Slab) -> None:
        self._slab = slab
        self._held: list[int] = []

    def published(self, update: Update | None = None) -> None:
        self._slab.release(self._held)
        self._held = []

    def _hold(self, blocks: list[int], stopwatch: Stopwatch) -> Trajectory[np.ndarray]:
        stopwatch.lap("idle")
        self._held = blocks
        batch = self._slab.gather(blocks)
        stopwatch.lap("gather")
        return batch


class SynchronousSource(Held):
    """One block of each group of all living agents, held until its update is published.

    Rings have one block, so agents wait for that update, and all experience is on-policy.
    """

    def __init__(self, slab: Slab, weights: PublishedWeights, stop: threading.Event) -> None:
        super().__init__(slab)
        self._weights, self._stop = weights, stop

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        slab = self._slab
        while not self._stop.is_set():
            slab.finished.get_many(slab.num_blocks, 0.0)  # or the queue would fill up
            finished = [block for block in range(slab.num_blocks) if slab.is_finished(block)]
            # An agent replaced during an update may have acted with the weights from before and after it.
            stale = [block for block in finished if (slab.version[block] != self._weights.version).any()]
            if stale:
                slab.release(stale)
            elif finished and len(finished) == self._expected():
                return self._hold(finished, stopwatch)
            slab.finished.get_many(slab.num_blocks, WAKE_SECONDS)
        return None

    def _expected(self) -> int:
        """Number of blocks to expect: those of living agents, and those that others finished before they died."""
        slab = self._slab
        return sum(
            slab.is_finished(block) or not slab.retired[slab.agent_of(block)] for block in range(slab.num_blocks)
        )


class Rounds(Held):
    """A fixed order for reproducible runs: in each round every group fills one block, with weights of a fixed age.

    Predictors answer the first groups of all agents, then all second groups, and so on. A round begins when the first
    groups request its first step; only then are newer weights fetched, and only then is the previous round trained on,
    its groups in order. So while one round is acted, the previous one is trained on. The order is lost when an agent
    dies: from then on requests are answered as they arrive, with the newest weights, and blocks are trained on oldest
    first.

    Args:
        blocks: blocks per batch; the number of groups is a multiple of it.
        paces_only: batches come from a `SynchronousSource`, which has a fixed order of its own.
    """

    def __init__(self, slab: Slab, blocks: int, stop: threading.Event, paces_only: bool = False) -> None:
        assert slab.num_groups % blocks == 0
        super().__init__(slab)
        self._blocks, self._stop, self._paces_only = blocks, stop, paces_only
        self.enough = slab.num_agents
        self._asked: set[int] = set()
        self._batches_a_round = slab.num_groups // blocks
        self._turn = 0  # index, within each agent, of the groups to answer next
        self._begins = False  # whether the requests being answered begin a round
        self._change = threading.Condition()  # guards the counts below
        self._begun = 0  # rounds
        self._batches, self._published = 0, 0

    # Pacing

    def next_groups(self, patience: float) -> Sequence[int]:
        slab = self._slab
        if self._begins:  # the round's first requests are answered, so its weights have been fetched
            self._begins = False
            with self._change:
                self._begun += 1
                self._change.notify_all()
        if slab.deaths:  # do not wait for an agent that itself waits for an update
            asked, self._asked = self._asked, set()
            return [*asked] or slab.await_requests(slab.num_groups, WAKE_SECONDS)
        wanted = range(self._turn, slab.num_groups, slab.groups_per_agent)
        if not self._asked.issuperset(wanted):
            self._asked.update(slab.await_requests(slab.num_groups, WAKE_SECONDS))
            return []
        if self._turn == 0 and (slab.step[wanted] == 0).any() and not self._await_updates():
            return []
        self._asked.difference_update(wanted)
        self._turn = (self._turn + 1) % slab.groups_per_agent
        return wanted

    def may_fetch(self, requests: Requests) -> bool:
        self._begins = bool(requests.group[0] % self._slab.groups_per_agent == 0 and (requests.step == 0).any())
        return self._begins or bool(self._slab.deaths)

    def _await_updates(self) -> bool:
        """Wait up to a second for the updates of all rounds before the last; return whether they are published."""
        if self._paces_only:
            return True
        due = (self._begun - 1) * self._batches_a_round
        with self._change:
            return self._change.wait_for(lambda: bool(self._slab.deaths) or self._published >= due, WAKE_SECONDS)

    # Batch source

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        slab = self._slab
        while not self._stop.is_set():
            slab.finished.get_many(slab.num_blocks, 0.0)  # or the queue would fill up
            chosen = self._chosen()
            if chosen is not None:
                self._batches += 1
                return self._hold(chosen, stopwatch)
            slab.finished.get_many(slab.num_blocks, WAKE_SECONDS)
        return None

    def published(self, update: Update | None = None) -> None:
        super().published()
        with self._change:
            self._published += 1
            self._change.notify_all()

    def _chosen(self) -> list[int] | None:
        """The next batch's blocks; None if they cannot be trained on yet."""
        slab = self._slab
        if slab.deaths:
            finished = [block for block in range(slab.num_blocks) if slab.is_finished(block)]
            finished.sort(key=lambda block: (slab.version[block].max(), slab.order_of(block)))
            return finished[: self._blocks] if len(finished) >= self._blocks else None
        number, part = divmod(self._batches, self._batches_a_round)
        with self._change:
            if not self._change.wait_for(lambda: self._begun > number + 1, WAKE_SECONDS):
                return None
        groups = range(part * self._blocks, (part + 1) * self._blocks)
        blocks = [group * slab.ring + number % slab.ring for group in groups]
        return blocks if all(map(slab.is_finished, blocks)) else None
