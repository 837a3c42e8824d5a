"""Detects when a policy forgets: the mean training reward or return falls back towards its initial value."""

import statistics

WINDOW_SECONDS = 10.0
SUSTAINED = 3  # successive windows for which a reward must be held to count as reached
NOISE = 6.0  # times the median change between windows: gain from which a policy counts as having learned


class RewardWatch:
    """Mean reward of steps, or mean return of episodes, in windows of ten seconds or, until there are enough, longer.

    Once the policy has clearly learned, a window is collapsed if its mean reward is below the midpoint between the
    first window's and the highest sustained over three successive windows.

    Args:
        what: "reward" or "return", for messages.
        least: number of steps or episodes that a window needs.

    Attributes:
        collapses: number of collapsed windows that followed one that was not.
        collapsed_seconds: duration of all collapsed windows.
        longest_seconds: longest duration of successive collapsed windows.
    """

    def __init__(self, what: str = "reward", least: int = 1) -> None:
        self._what, self._least = what, least
        self.collapses, self.collapsed_seconds, self.longest_seconds = 0, 0.0, 0.0
        self._windows: list[float] = []  # mean rewards
        self._level = float("-inf")  # the highest sustained
        self._begin: float | None = None
        self._number, self._sum = 0, 0.0  # in this window
        self._collapsed_since: float | None = None

    def add(self, seconds: float, number: int, mean: float) -> str | None:
        """Add trained steps, or episodes that have ended.

        Args:
            mean: their mean reward or return, before any transform.

        Returns:
            A line for the user if a collapse begins or ends, else None.
        """
        self._begin = seconds if self._begin is None else self._begin
        self._number, self._sum = self._number + number, self._sum + number * mean
        length = seconds - self._begin
        if length < WINDOW_SECONDS or self._number < self._least:
            return None
        of_window, began = self._sum / self._number, self._begin
        self._begin, self._number, self._sum = seconds, 0, 0.0
        return self._close(of_window, began, length)

    def phrase(self) -> str:
        """Text for the summary of a run; empty if nothing was learned that could be forgotten."""
        if not self.collapses:
            return "no collapse" if self._learned() else ""
        times = "1 collapse" if self.collapses == 1 else f"{self.collapses} collapses"
        return f"{times} of the training {self._what} ({self.collapsed_seconds:.0f} s)"

    def _close(self, mean: float, began: float, length: float) -> str | None:
        self._windows.append(mean)
        if len(self._windows) >= SUSTAINED:
            self._level = max(self._level, min(self._windows[-SUSTAINED:]))
        half = (self._windows[0] + self._level) / 2
        if self._learned() and mean < half:
            starts = self._collapsed_since is None
            self._collapsed_since = began if starts else self._collapsed_since
            assert self._collapsed_since is not None
            self.collapses += starts
            self.collapsed_seconds += length
            self.longest_seconds = max(self.longest_seconds, began + length - self._collapsed_since)
            told = f"Collapse: the mean training {self._what} fell from {self._level:.3g} to {mean:.3g}"
            return told if starts else None
        recovered, self._collapsed_since = self._collapsed_since is not None, None
        return f"Recovered: the mean training {self._what} is {mean:.3g} again" if recovered else None

    def _learned(self) -> bool:
        if len(self._windows) < SUSTAINED:
            return False
        changes = [abs(after - before) for before, after in zip(self._windows, self._windows[1:], strict=False)]
        return self._level - self._windows[0] > NOISE * statistics.median(changes)
