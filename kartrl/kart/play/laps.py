"""Lap times, progress, and the gap between two karts."""

import bisect

from kartrl.kart.game import TICKS_PER_SECOND, Game
from kartrl.kart.progress import Course, LapTimes, Progress, race_seconds


class Drive(LapTimes):
    """Lap times and progress of a race, from the race state after each tick.

    Args:
        course: of the circuit, if the game has its gates.
    """

    def __init__(self, game: Game, course: Course | None, race: dict[str, int]) -> None:
        super().__init__(game, race)
        self._course = course
        self.clock = race_seconds(race)
        """Seconds on the race clock."""
        self.lap_clock = 0.0
        """Seconds of the current lap."""
        self.finished = False
        self.total: float | None = None
        """Seconds of the finished race."""
        self._progress = Progress(race["checkpoint_num"], race["checkpoint"])
        # best position so far after each tick, in sections from the start
        self._furthest: list[float] = []

    def update(self, race: dict[str, int]) -> None:
        """Update with the race state after a tick."""
        super().update(race)
        self.clock, self.lap_clock = race_seconds(race), self.elapsed(race)
        self.finished = self._game.laps_done(race) >= self._game.laps
        self.total = (self.total or self.clock) if self.finished else None
        offset = 0.0 if self._course is None else self._course.offset(race["checkpoint"], race["x"], race["y"])
        self._progress.update(race["checkpoint"], offset)
        here = self._progress.position + offset
        self._furthest.append(max(here, self._furthest[-1]) if self._furthest else here)

    @property
    def best(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def sections(self) -> int:
        """Whole sections driven since the start."""
        return max(0, self._progress.position)

    def gap(self, other: "Drive") -> float:
        """Seconds behind the other kart, which started at the same time; negative when ahead."""
        mine, theirs = self._furthest, other._furthest
        if not mine or not theirs:
            return 0.0
        if self.finished and other.finished:
            return (len(mine) - len(theirs)) / TICKS_PER_SECOND
        place = min(mine[-1], theirs[-1])  # the furthest position that both have reached
        here, there = bisect.bisect_left(mine, place), bisect.bisect_left(theirs, place)
        if self._course is not None:  # positions are exact: the gap also grows while the kart behind stands still
            now = max(len(mine), len(theirs)) - 1
            here, there = now if mine[-1] < theirs[-1] else here, now if theirs[-1] < mine[-1] else there
        return (here - there) / TICKS_PER_SECOND
