"""Lap times, progress, and the gap between two karts."""

import bisect

from kartrl.kart.race import TICKS_PER_SECOND, Course, Game, Progress, race_seconds


class Drive:
    """Lap times and progress of a race, from the race state after each tick.

    Args:
        course: of the circuit, if the game has its gates.
    """

    def __init__(self, game: Game, course: Course | None, race: dict[str, int]) -> None:
        self._game = game
        self._course = course
        self.lap_times: tuple[float, ...] = ()
        """Seconds of each completed lap."""
        self.clock = race_seconds(race)
        """Seconds on the race clock."""
        self.finished = False
        self._laps_began = self.clock
        self._progress = Progress(race["checkpoint_num"], race["checkpoint"])
        # best position so far after each tick, in sections from the start
        self._furthest: list[float] = []

    def update(self, race: dict[str, int]) -> None:
        """Update with the race state after a tick."""
        game = self._game
        self.clock = race_seconds(race)
        laps = game.laps_done(race)
        if laps < len(self.lap_times):  # a new race, started in the console's own menus
            self.lap_times, self._laps_began = (), self.clock
        elif laps > len(self.lap_times):
            self.lap_times += (round(self.clock - self._laps_began, 2),)
            self._laps_began = self.clock
        self.finished = laps >= game.laps
        offset = 0.0 if self._course is None else self._course.offset(race["checkpoint"], race["x"], race["y"])
        self._progress.update(race["checkpoint"], offset)
        here = self._progress.position + offset
        self._furthest.append(max(here, self._furthest[-1]) if self._furthest else here)

    @property
    def lap(self) -> int:
        """The current lap, from 1; the last one when the race is finished."""
        return min(len(self.lap_times) + 1, self._game.laps)

    @property
    def lap_clock(self) -> float:
        """Seconds of the current lap."""
        return self.clock - self._laps_began

    @property
    def best(self) -> float | None:
        """Seconds of the best lap."""
        return min(self.lap_times, default=None)

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
