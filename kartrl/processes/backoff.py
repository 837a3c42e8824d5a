"""Restart policy of processes that died: exponential backoff, and when to give up."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection

from kartrl.errors import RunFailed
from kartrl.processes.child import ChildProcess, kill_orphans
from kartrl.processes.pipes import is_felt

STILL_SECONDS = 60.0  # plus `step_timeout`: how long a logger or an evaluator may go without a sign of life
USEFUL_SECONDS = 60.0  # lifetime after which a logger or an evaluator counts as useful
LONGEST_PAUSE = 60.0  # maximum seconds between restarts
STRIKES = 4  # consecutive deaths without a useful lifetime after which a role is failing


class Restarts:
    """Exponential backoff: restart at once after a useful lifetime, else after pauses that double.

    Attributes:
        strikes: deaths since it last did useful work.
        total: all deaths.
    """

    def __init__(self) -> None:
        self.strikes, self.total, self._due = 0, 0, 0.0

    def died(self, now: float, useful: bool) -> None:
        """Record a death at the monotonic time `now`; `useful`: whether the process had done useful work."""
        self.total += 1
        self.strikes = 1 if useful else self.strikes + 1
        self._due = now + (0.0 if self.strikes == 1 else min(LONGEST_PAUSE, 2.0 ** (self.strikes - 2)))

    def recovered(self) -> None:
        """Record that the process does useful work again."""
        self.strikes = 0

    def due(self, now: float) -> bool:
        """Whether the pause is over."""
        return now >= self._due

    @property
    def failing(self) -> bool:
        """Whether the process keeps dying without useful work."""
        return self.strikes >= STRIKES


class Helper:
    """The logger or the evaluator: restarted when it dies or hangs, and given up when it keeps failing.

    The run continues in any case.

    Args:
        start: starts the process, which must send a `Pulse` through the connection.
        patience: seconds without a sign of life after which it counts as hung.
    """

    def __init__(
        self, role: str, start: Callable[[Connection], ChildProcess], say: Callable[[str], None], patience: float
    ) -> None:
        self.role, self._start, self._say, self._patience = role, start, say, patience
        self.process: ChildProcess | None = None
        self.restarts = Restarts()
        self.signs: Connection | None = None
        self._began = self._felt = 0.0  # when it was started, and when it last showed a sign of life
        self._stalled = False

    def watch(self, now: float) -> None:
        """Start the process if it is due, and check that it is alive and makes progress."""
        if self.process is not None and not self.process.is_alive():
            code, self.process = self.process.exitcode, None
            kill_orphans()
            self.restarts.died(now, useful=self._felt - self._began > USEFUL_SECONDS)
            action = "giving up on it" if self.restarts.failing else "restarting it"
            self._say(f"the {self.role} died (exit status {code}): {action}; training continues")
        if self.process is None and not self.restarts.failing and self.restarts.due(now):
            try:
                self._begin(now)
            except (OSError, RunFailed) as error:  # of the machine's limits
                self.restarts.died(now, useful=False)
                action = "giving up on it" if self.restarts.failing else "trying again"
                self._say(f"the {self.role} cannot be started ({error}): {action}; training continues")
        self._look(now)

    def replace(self, seconds: float) -> None:
        """End the process within so many seconds; the next `watch` starts another one."""
        if self.process is not None:
            self.process.join(seconds)
            self.process.kill()
            self.process = None

    def rest(self, now: float) -> None:
        """Start timing again: until `now`, the process has been suspended."""
        self._felt = now

    def _begin(self, now: float) -> None:
        if self.signs is not None:
            self.signs.close()
        self.signs, writer = multiprocessing.Pipe(duplex=False)
        with writer:
            self.process = self._start(writer)
        self._began = self._felt = now
        self._stalled = False

    def _look(self, now: float) -> None:
        """Kill the process if it hangs."""
        if self.process is None or self.signs is None or is_felt(self.signs):
            self._felt = now
        elif now - self._felt > self._patience and not self._stalled:
            self._stalled = True
            self._say(f"the {self.role} has been stalled for {now - self._felt:.0f} s; killing it")
            self.process.kill()
