"""Lap times, how far a kart has come, and who is how many seconds ahead."""

import bisect

from kartrl.kart.race import TICKS_PER_SECOND, Course, Game, Progress, race_seconds


class Drive:
    """What is known of a race so far, from the race state after each tick.

    Args:
        course: of the circuit, where the game tells it.
    """

    def __init__(self, game: Game, course: Course | None, race: dict[str, int]) -> None:
        self._game = game
        self._course = course
        self.lap_times: tuple[float, ...] = ()
        """Seconds of the laps done."""
        self.clock = race_seconds(race)
        """Seconds on the race clock."""
        self.finished = False
        self._laps_began = self.clock
        self._progress = Progress(race["checkpoint_num"], race["checkpoint"])
        self._furthest: list[
            float
        ] = []  # after each tick: the best position so far, in sections from where the race began

    def update(self, race: dict[str, int]) -> None:
        """One tick has gone by."""
        game = self._game
        self.clock = race_seconds(race)
        laps = game.laps_done(race)
        if laps < len(self.lap_times):  # another race: somebody uses the console's own menus
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
        """The lap under way, from 1; the last one when the race is done."""
        return min(len(self.lap_times) + 1, self._game.laps)

    @property
    def lap_clock(self) -> float:
        """Seconds of the lap under way."""
        return self.clock - self._laps_began

    @property
    def best(self) -> float | None:
        """Seconds of the best lap."""
        return min(self.lap_times, default=None)

    @property
    def sections(self) -> int:
        """Whole sections driven since the race began."""
        return max(0, self._progress.position)

    def gap(self, other: "Drive") -> float:
        """Seconds that this kart has lost on the other, which began with it; below 0 where it leads."""
        mine, theirs = self._furthest, other._furthest
        if not mine or not theirs:
            return 0.0
        if self.finished and other.finished:
            return (len(mine) - len(theirs)) / TICKS_PER_SECOND
        place = min(mine[-1], theirs[-1])  # the furthest that both have reached
        here, there = bisect.bisect_left(mine, place), bisect.bisect_left(theirs, place)
        if self._course is not None:  # places are known to the pixel: who is behind loses time also while it stands
            now = max(len(mine), len(theirs)) - 1
            here, there = now if mine[-1] < theirs[-1] else here, now if theirs[-1] < mine[-1] else there
        return (here - there) / TICKS_PER_SECOND
