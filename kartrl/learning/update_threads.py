"""Threads that share the parts of an update on a CPU; more of them while updates are the bottleneck."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

UPDATES, SECONDS = 5, 2.0  # both must have passed before it is decided whether updates were the bottleneck
BUSY = 0.95  # fraction of the time spent in updates from which on they are: the agents wait for them

Item = TypeVar("Item")
Result = TypeVar("Result")


class UpdateThreads:
    """A pool of threads that grows.

    While one update follows the other without a pause, the agents are as far behind as the slab allows and the other
    cores wait, so the number of threads doubles. It never shrinks: with too many, updates pause, and nothing is lost.

    Args:
        number: of threads at the start.
        most: to which they may grow; None: they do not.

    Attributes:
        number: of threads.
    """

    def __init__(self, number: int = 1, most: int | None = None) -> None:
        self._most = number if most is None else most
        self._since: float | None = None  # monotonic time from which on updates are counted
        self._busy, self._updates = 0.0, 0
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
        if self.number >= self._most:
            return
        if self._since is None:  # after the first one, which compiles
            self._since = end
            return
        self._busy += end - begin
        self._updates += 1
        spent = end - self._since
        if self._updates >= UPDATES and spent >= SECONDS:
            if self._busy >= BUSY * spent:
                self._resize(min(self._most, 2 * self.number))
            self._since, self._busy, self._updates = end, 0.0, 0

    def _resize(self, number: int) -> None:
        self.number = number
        self._pool = ThreadPoolExecutor(number, "update") if number > 1 else None
