"""Ghosts, each with its own console: here the replay of a movie; `policy` has the trained network."""

from typing import Protocol

from kartrl.console.movie import Movie
from kartrl.kart.console import KartConsole
from kartrl.kart.play.laps import Drive
from kartrl.kart.progress import Course


class Ghost(Protocol):
    """An opponent without collisions; it stops where its own drive ends."""

    name: str
    race: dict[str, int]
    """Its raw race state after the last tick."""
    drive: Drive

    def begin(self) -> None:
        """Reset to the start."""

    def tick(self) -> None:
        """Advance by a sixtieth of a second."""


class MovieGhost:
    """Replays a recorded drive.

    Args:
        console: used by this ghost only.
    """

    def __init__(self, console: KartConsole, movie: Movie, course: Course | None, name: str) -> None:
        self.name = name
        self._console, self._movie, self._course = console, movie, course
        self.begin()

    def begin(self) -> None:
        """Reset to the start."""
        self._console.restore(self._movie.state)
        self._inputs = iter(self._movie.inputs)
        self.race = self._console.race()
        self.drive = Drive(self._console.game, self._course, self.race)

    def tick(self) -> None:
        """Advance by a sixtieth of a second."""
        buttons = next(self._inputs, None)
        if buttons is not None:
            self._console.step(buttons)
            self.race = self._console.race()
            self.drive.update(self.race)
