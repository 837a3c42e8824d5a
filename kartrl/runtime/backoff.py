"""When a process that died is started again, and when it is given up."""

from collections.abc import Callable
from multiprocessing.process import BaseProcess

USEFUL_SECONDS = 60.0  # of life after which a logger or an evaluator has been of use
LONGEST_PAUSE = 60.0  # seconds between two lives of a role that keeps failing
STRIKES = 4  # deaths in a row, without having done anything useful, that make a role a failing one


class Restarts:
    """When a role that died may be started again: at once if it had been of use, else after pauses that double.

    Attributes:
        strikes: deaths since it was last of use.
        total: deaths in all.
    """

    def __init__(self) -> None:
        self.strikes, self.total, self._due = 0, 0, 0.0

    def died(self, now: float, useful: bool) -> None:
        """It died at the monotonic time `now`; `useful` tells whether this life had done what the role is for."""
        self.total += 1
        self.strikes = 1 if useful else self.strikes + 1
        self._due = now + (0.0 if self.strikes == 1 else min(LONGEST_PAUSE, 2.0 ** (self.strikes - 2)))

    def due(self, now: float) -> bool:
        """Whether its pause is over."""
        return now >= self._due

    @property
    def failing(self) -> bool:
        """Whether it dies again and again without being of use."""
        return self.strikes >= STRIKES


class Helper:
    """The logger or the evaluator: training does not need it, so it is replaced, and at last given up, without ending the run."""

    def __init__(self, role: str, start: Callable[[], BaseProcess], say: Callable[[str], None]) -> None:
        self.role, self._start, self._say = role, start, say
        self.process: BaseProcess | None = None
        self.restarts = Restarts()
        self._began = 0.0

    def watch(self, now: float) -> None:
        """Start it if it is due, and see whether it lives."""
        if self.process is not None and not self.process.is_alive():
            code, self.process = self.process.exitcode, None
            self.restarts.died(now, useful=now - self._began > USEFUL_SECONDS)
            what = "given up" if self.restarts.failing else "started again"
            self._say(f"the {self.role} died (exit status {code}) and is {what}; training goes on")
        if self.process is None and not self.restarts.failing and self.restarts.due(now):
            self.process, self._began = self._start(), now
