"""The clock of a game that a person plays."""

from math import floor

MOST = 5  # ticks that are made up for at once; what is later than that is let go


class Pacer:
    """Says how many ticks of game time are due, so that a second has sixty of them, however long a picture takes to draw.

    Times are seconds of any steady clock, handed in.
    """

    def __init__(self, now: float, rate: float) -> None:
        self._period = 1 / rate
        self._next = now  # when the next tick is due

    def due(self, now: float) -> int:
        """How many ticks to run now. Where the machine has been held up, the game is late rather than in a rush."""
        ticks = max(0, floor((now - self._next) / self._period + 1e-6) + 1)
        if ticks > MOST:
            self._next = now + self._period
            return MOST
        self._next += ticks * self._period
        return ticks

    def wait(self, now: float) -> float:
        """Seconds until the next tick is due."""
        return max(0.0, self._next - now)
