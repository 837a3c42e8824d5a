"""Batches of the unrolls that nodes deliver."""

import threading
from collections.abc import Callable

import numpy as np

from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.slab import WAKE_SECONDS
from kartrl.learning.learner import Update
from kartrl.metrics.stopwatch import Stopwatch
from kartrl.nodes.delivery import Delivery, unpack
from kartrl.nodes.fleet import CALLS, Fleet
from kartrl.nodes.members import Member
from kartrl.sizing.auto import stale_after
from kartrl.trajectory import Trajectory, joined


class NodeSource:
    """Unrolls of nodes, those of the oldest calls first, split into batches; see `BatchSource`.

    Args:
        updates: mean number of updates per batch; see `updates_per_batch`.
        weights: their version determines how old an unroll is.
        max_lag: an unroll begun more than this many updates ago is dropped; None: several times the lag that the
            nodes' environments and calls lead to.
        receive: processes the rest of each delivery.
    """

    def __init__(
        self,
        fleet: Fleet,
        batch: int,
        updates: float,
        weights: PublishedWeights,
        max_lag: int | None,
        stop: threading.Event,
        receive: Callable[[Member, Delivery], None],
    ) -> None:
        self._fleet, self._batch, self._updates = fleet, batch, updates
        self._weights, self._max_lag = weights, max_lag
        self._stop, self._receive = stop, receive
        self._parts: list[Trajectory[np.ndarray]] = []
        self.dropped = 0

    @property
    def max_lag(self) -> int:
        """An unroll begun more than this many updates ago is dropped."""
        if self._max_lag is not None:
            return self._max_lag
        under_way = sum(member.envs for member in self._fleet.members) + CALLS * self._batch
        return stale_after(under_way / self._batch * self._updates)

    def next(self, stopwatch: Stopwatch) -> Trajectory[np.ndarray] | None:
        while sum(len(part.online) for part in self._parts) < self._batch:
            if self._stop.is_set():
                return None
            answer = self._fleet.take(WAKE_SECONDS)
            stopwatch.lap("idle")
            if answer is not None:
                self._add(*answer)
                stopwatch.lap("gather")
        held = joined(*self._parts)
        # copied, to free the deliveries' memory in Ray's object store
        self._parts = [held.unrolls(slice(self._batch, None))] if len(held.online) > self._batch else []
        stopwatch.lap("gather")
        return held.unrolls(slice(0, self._batch)) if self._parts else held

    def _add(self, member: Member, delivery: Delivery) -> None:
        self._receive(member, delivery)
        unrolls = unpack(delivery)
        lag = self._weights.version - unrolls.version  # int64 [T, B]
        member.unrolls, member.lag = member.unrolls + len(unrolls.online), float(lag.mean())
        fresh = np.flatnonzero(lag.max(0) <= self.max_lag)
        if len(fresh) < len(unrolls.online):
            self.dropped += len(unrolls.online) - len(fresh)
            unrolls = unrolls.unrolls(fresh)
        self._parts.append(unrolls)

    def published(self, update: Update | None = None) -> None:
        """See `BatchSource`: nodes continue with the new weights."""
        self._fleet.call_all()
