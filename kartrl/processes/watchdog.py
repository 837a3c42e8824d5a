"""Notices when a run no longer makes progress, or was suspended."""

from kartrl.errors import RunFailed

PATIENCE = 2.0  # multiple of the longest time that something may take after which the run gives up
SUSPENDED_SECONDS = 3.0  # between two looks at messages, which are half a second apart
STUCK_SECONDS = 10.0  # without an update before a line reports it, unless an earlier one took as long


class Watchdog:
    """Watches agents and updates separately: an agent that keeps dying shows signs of life too.

    How long an update may take depends on the environment, so it is compared with the longest so far. Before the
    first one, only signs of life are watched: the death of an agent ends the run then, and if trainers hang, agents
    soon run out of blocks to fill.

    Args:
        step_timeout: `system.step_timeout`, the longest that a call of an environment may take.
        fewest: smallest fraction of the agents with which training continues, in (0, 1].
    """

    def __init__(self, now: float, step_timeout: float, fewest: float) -> None:
        self._step_timeout, self._fewest = step_timeout, fewest
        self._now = self._lived = self._updated = now
        self._signs = self.updates = 0
        self._longest: float | None = None  # seconds between two updates

    def look(self, now: float, signs: int, updates: int) -> None:
        """Compare what this process has done so far with the last check.

        Args:
            signs: of life: calls of environments, and optimizer steps: agents wait for a long synchronous update.
            updates: whole updates.

        Raises:
            RunFailed: the run is stuck.
        """
        self._now = now
        if updates != self.updates:
            self._longest = max(self._longest or 0.0, now - self._updated)
            self.updates, self._updated = updates, now
        if signs != self._signs or self._updated == now:
            self._signs, self._lived = signs, now
        if now - self._lived > PATIENCE * self._step_timeout:
            raise RunFailed(f"no steps or updates for {now - self._lived:.0f} s")
        if self._longest is not None:
            pause, longest = now - self._updated, self._longest / self._fewest
            if pause > PATIENCE * (self._step_timeout + longest):
                raise RunFailed(f"no updates for {pause:.0f} s, although environments are stepped")

    def rest(self, now: float) -> None:
        """Start timing again: until `now`, there were no agents."""
        self._now = self._lived = self._updated = now

    @property
    def stuck(self) -> float:
        """Seconds since the last update; 0 if that is not unusually long."""
        pause = self._now - self._updated
        return pause if self._longest is not None and pause > max(STUCK_SECONDS, self._longest) else 0.0


class Suspension:
    """Notices that all processes of a run have been suspended, as by Ctrl-Z, or that the machine is overloaded.

    What others have done since then says nothing about them: time them anew.
    """

    def __init__(self, now: float) -> None:
        self._looked = now

    def is_over(self, now: float) -> bool:
        """Whether there was one since the last call, apart from `forget`; comes twice a second.

        What follows must use the same `now`, as a suspension may begin at any moment.
        """
        before, self._looked = self._looked, now
        return now - before > SUSPENDED_SECONDS

    def forget(self, now: float, longest: float) -> None:
        """Do not count up to `longest` seconds since the last call, for which this process itself may have waited."""
        self._looked = min(now, self._looked + longest)
