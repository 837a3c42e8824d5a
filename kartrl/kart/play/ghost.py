"""Who drives along, each on a console of its own: here a movie of an earlier drive; `policy` has the trained network."""

from typing import Protocol

from kartrl.kart.play.laps import Drive
from kartrl.kart.play.movie import Movie
from kartrl.kart.race import Course
from kartrl.kart.retro import Console


class Ghost(Protocol):
    """A kart that can be raced against; it is never touched, and stays where its own drive ends."""

    name: str
    race: dict[str, int]
    """Its race state after the last tick, as raw as in the console's memory."""
    drive: Drive

    def begin(self) -> None:
        """Go to the start."""

    def tick(self) -> None:
        """Drive for one sixtieth of a second."""


class MovieGhost:
    """A drive that was recorded.

    Args:
        console: for this ghost alone.
    """

    def __init__(self, console: Console, movie: Movie, course: Course | None, name: str) -> None:
        self.name = name
        self._console, self._movie, self._course = console, movie, course
        self.begin()

    def begin(self) -> None:
        """Go to the start."""
        self._console.restore(self._movie.state)
        self._inputs = iter(self._movie.inputs)
        self.race = self._console.race()
        self.drive = Drive(self._console.game, self._course, self.race)

    def tick(self) -> None:
        """Drive for one sixtieth of a second."""
        buttons = next(self._inputs, None)
        if buttons is not None:
            self._console.step(buttons)
            self.race = self._console.race()
            self.drive.update(self.race)
