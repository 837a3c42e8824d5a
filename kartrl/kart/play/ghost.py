"""Ghosts, each with its own console: the replay of a movie, and a trained network."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kartrl.console.movie import Movie
from kartrl.kart.console import KartConsole
from kartrl.kart.game import Game
from kartrl.kart.play.laps import Drive
from kartrl.kart.progress import Course

if TYPE_CHECKING:
    from kartrl.driving.driver import Driver


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


class PolicyGhost:
    """A trained network that acts every `frame_skip` ticks, as in training.

    Args:
        driver: used by this ghost only.
        circuit: name of a circuit, or path of a start state.
        start: the race state at the start.
    """

    def __init__(
        self,
        driver: Driver,
        circuit: str,
        greedy: bool,
        game: Game,
        course: Course | None,
        start: dict[str, int],
        name: str,
    ) -> None:
        self.name = name
        self._driver, self._circuit, self._greedy = driver, circuit, greedy
        self._game, self._course, self._start = game, course, start
        self._ahead: deque[dict[str, int]] = deque()  # race states of the current step, one per tick
        self._steps: Iterator[object] = iter(())
        driver.env.unwrapped.on_frame = self._record_race  # type: ignore[attr-defined]
        self.begin()

    def begin(self) -> None:
        """Reset to the start."""
        self._ahead.clear()
        from kartrl.driving.episodes import steps  # here, as is the driver: it loads torch

        env, network = self._driver.env, self._driver.network
        start = {"circuit": self._circuit, "noop": 0}
        self._steps = steps(env, network, start, greedy=self._greedy, seed=0)
        self.race = self._start
        self.drive = Drive(self._game, self._course, self._start)

    def tick(self) -> None:
        """Advance by a sixtieth of a second."""
        if not self._ahead:
            next(self._steps, None)
        if self._ahead:
            self.race = self._ahead.popleft()
            self.drive.update(self.race)

    def _record_race(self, _: np.ndarray) -> None:
        self._ahead.append(self._driver.env.unwrapped.race())  # type: ignore[attr-defined]
