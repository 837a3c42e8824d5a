"""Threads that share the parts of an update on a CPU; more of them while updates are the bottleneck."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

UPDATES, SECONDS = 5, 2.0  # both must have passed before it is decided whether updates were the bottleneck
BUSY = 0.95  # fraction of the time spent in updates from which on they are: the agents wait for them
RETRY_SECONDS = 60.0  # until more threads are tried again after they did not help; then twice as long each time

Item = TypeVar("Item")
Result = TypeVar("Result")


class UpdateThreads:
    """A pool of threads that grows.

    While one update follows the other without a pause, the agents are as far behind as the slab allows and the other
    cores wait, so the number of threads doubles. If updates are no faster then, as those of small networks are not, the
    previous number returns. Otherwise it never shrinks: with too many, updates pause, and nothing is lost.

    Args:
        most: to which they may grow; None: they do not.

    Attributes:
        number: of threads.
        least_parts: into which a batch is divided: as many as threads once these have grown. A number that was given
            shares the operations of the parts that there are anyway, so that results do not depend on it.
    """

    def __init__(self, number: int = 1, most: int | None = None) -> None:
        self._most = number if most is None else most
        self._given = number
        self._since: float | None = None  # monotonic time from which on updates are counted
        self._busy, self._updates = 0.0, 0
        self._fewer: tuple[int, float] | None = None  # what it was before it grew: a number, and seconds per update
        self._next, self._retry = -math.inf, RETRY_SECONDS  # monotonic time of the next growth, and seconds after it
        self._resize(number)

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The function's results in the items' order, from several threads; call it only if there are several."""
        assert self._pool is not None
        operations = max(1, self.number // len(items))  # threads of each thread's operations

        def call(item: Item) -> Result:
            torch.set_num_threads(operations)
            return function(item)

        return self._pool.map(call, items)

    def record(self, begin: float, end: float) -> None:
        """Count an update that lasted from one monotonic time to another, in seconds; call it after each."""
        if self.number >= self._most and self._fewer is None:
            return
        if self._since is None:  # after the first one with these threads, which compiles
            self._since = end
            return
        self._busy += end - begin
        self._updates += 1
        spent = end - self._since
        if self._updates < UPDATES or spent < SECONDS:
            return
        seconds, busy = self._busy / self._updates, self._busy >= BUSY * spent
        self._since, self._busy, self._updates = end, 0.0, 0
        if self._fewer is not None:
            (number, before), self._fewer = self._fewer, None
            if seconds >= before:
                self._next, self._retry = end + self._retry, 2 * self._retry
                self._resize(number)
                return
        if busy and self.number < self._most and end >= self._next:
            self._fewer = self.number, seconds
            self._resize(min(self._most, 2 * self.number))

    def _resize(self, number: int) -> None:
        self.number = number
        self.least_parts = number if number > self._given else 1
        self._since = None
        self._pool = ThreadPoolExecutor(number, "update") if number > 1 else None
