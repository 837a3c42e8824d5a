"""The clock of interactive play."""

from math import floor

MOST = 5  # maximum ticks to catch up at once; later ones are dropped


class Pacer:
    """Counts the ticks that are due, so that the game runs at `rate` ticks per second however long drawing takes.

    Times are seconds of any monotonic clock, passed in.
    """

    def __init__(self, now: float, rate: float) -> None:
        self._period = 1 / rate
        self._next = now  # when the next tick is due

    def due(self, now: float) -> int:
        """Ticks to run now. After a stall the game continues late instead of fast-forwarding."""
        ticks = max(0, floor((now - self._next) / self._period + 1e-6) + 1)
        if ticks > MOST:
            self._next = now + self._period
            return MOST
        self._next += ticks * self._period
        return ticks

    def wait(self, now: float) -> float:
        """Seconds until the next tick is due."""
        return max(0.0, self._next - now)
