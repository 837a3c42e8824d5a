"""Where a kart is on its circuit, and its lap times, from the race states. Needs no emulator."""

from collections.abc import Sequence

from kartrl.kart.game import TICKS_PER_SECOND, Game


def fast_coins(race: dict[str, int]) -> int:
    """How many of a race state's coins make the kart faster: at most ten."""
    return min(race["coins"], 10)


def race_seconds(race: dict[str, int]) -> float:
    """The race clock of a raw race state, seconds."""
    return 60 * race["minutes"] + race["seconds"] + race["milliseconds"] / 100


class LapTimes:
    """Times of the laps of a race, from its race states; of those alone that are completed after the first one.

    Args:
        race: the raw race state at the start, which may be in any lap.

    Attributes:
        before: laps completed before the start.
        seconds: of each completed lap; exact if the game measures them itself, else between two states.
    """

    def __init__(self, game: Game, race: dict[str, int]) -> None:
        self._game = game
        self._begin(race)

    def _begin(self, race: dict[str, int]) -> None:
        self.seconds: tuple[float, ...] = ()
        self.before = self._game.laps_done(race)
        self._began = race_seconds(race)

    def update(self, race: dict[str, int]) -> None:
        """Update with the next race state."""
        laps = self._game.laps_done(race) - self.before
        if laps < len(self.seconds):  # a new race, started in the console's own menus
            self._begin(race)
        elif laps > len(self.seconds):
            clock = race_seconds(race)
            measured = race["last_lap"] / TICKS_PER_SECOND if "last_lap" in race else clock - self._began
            self.seconds += (round(measured, 2),)
            self._began = clock

    @property
    def lap(self) -> int:
        """The current lap, from 1; the last one when the race is finished."""
        return min(self.before + len(self.seconds) + 1, self._game.laps)

    def elapsed(self, race: dict[str, int]) -> float:
        """Seconds of the current lap."""
        return race_seconds(race) - self._began


class Course:
    """Position of a kart along its circuit within a section; needs a game that provides its gates.

    Args:
        gates: (x, y) of the middle of the road in the middle of each section, in driving order.
    """

    def __init__(self, gates: Sequence[tuple[int, int]]) -> None:
        self._gates = gates

    def offset(self, section: int, x: int, y: int) -> float:
        """Position relative to the middle of `section`, in sections along the road, -0.5 to 0.5."""
        count = len(self._gates)
        here = self._gates[section % count]
        ahead = _share(here, self._gates[(section + 1) % count], x, y)
        if ahead >= 0:
            return min(ahead, 0.5)
        behind = _share(self._gates[(section - 1) % count], here, x, y) - 1.0
        return max(-0.5, min(behind, 0.0))  # above 0 outside a sharp bend: clip


def _share(start: tuple[int, int], end: tuple[int, int], x: int, y: int) -> float:
    """Projection of (x, y) on the line from `start` to `end`: 0 at `start`, 1 at `end`."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    return ((x - start[0]) * dx + (y - start[1]) * dy) / max(1, dx * dx + dy * dy)


class Progress:
    """Progress of the kart, in sections from its start.

    A circuit is a ring of sections. Each update assumes the shorter way round, so that moving from the last section to
    the first is one step forward, and going back over the line is one step back. Only a new best position counts as
    progress: driving back and forth gains nothing.
    """

    def __init__(self, sections: int, section: int, offset: float = 0.0) -> None:
        self.sections = max(1, sections)
        self.position = 0
        self.best = 0
        self._furthest = offset  # best position, with the offset
        self._section = section

    def update(self, section: int, offset: float = 0.0) -> tuple[int, float]:
        """Move to `section`, and to `offset` sections from its middle.

        Returns:
            Increase of the best position so far in sections, 0 or more: whole sections, and with the offset.
        """
        half = self.sections // 2
        self.position += (section - self._section + half) % self.sections - half
        self._section = section
        gained = max(0, self.position - self.best)
        self.best += gained
        advanced = max(0.0, self.position + offset - self._furthest)
        self._furthest += advanced
        return gained, advanced

    @property
    def laps(self) -> float:
        """The best position so far, in laps."""
        return self.best / self.sections
