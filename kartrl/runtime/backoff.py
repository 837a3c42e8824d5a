"""Restart policy of processes that died: exponential backoff, and when to give up."""

from collections.abc import Callable
from multiprocessing.process import BaseProcess

USEFUL_SECONDS = 60.0  # lifetime after which a logger or an evaluator counts as useful
LONGEST_PAUSE = 60.0  # maximum seconds between restarts
STRIKES = 4  # consecutive deaths without a useful lifetime after which a role is failing


class Restarts:
    """Exponential backoff: restart at once after a useful lifetime, else after pauses that double.

    Attributes:
        strikes: deaths since the last useful lifetime.
        total: all deaths.
    """

    def __init__(self) -> None:
        self.strikes, self.total, self._due = 0, 0, 0.0

    def died(self, now: float, useful: bool) -> None:
        """Record a death at the monotonic time `now`; `useful`: whether the process had done useful work."""
        self.total += 1
        self.strikes = 1 if useful else self.strikes + 1
        self._due = now + (0.0 if self.strikes == 1 else min(LONGEST_PAUSE, 2.0 ** (self.strikes - 2)))

    def due(self, now: float) -> bool:
        """Whether the pause is over."""
        return now >= self._due

    @property
    def failing(self) -> bool:
        """Whether the process keeps dying without useful work."""
        return self.strikes >= STRIKES


class Helper:
    """The logger or the evaluator: restarted when it dies, and given up when it keeps failing; the run continues."""

    def __init__(self, role: str, start: Callable[[], BaseProcess], say: Callable[[str], None]) -> None:
        self.role, self._start, self._say = role, start, say
        self.process: BaseProcess | None = None
        self.restarts = Restarts()
        self._began = 0.0

    def watch(self, now: float) -> None:
        """Start the process if it is due, and check that it is alive."""
        if self.process is not None and not self.process.is_alive():
            code, self.process = self.process.exitcode, None
            self.restarts.died(now, useful=now - self._began > USEFUL_SECONDS)
            action = "giving it up" if self.restarts.failing else "restarting it"
            self._say(f"the {self.role} died (exit status {code}): {action}; training continues")
        if self.process is None and not self.restarts.failing and self.restarts.due(now):
            self.process, self._began = self._start(), now
