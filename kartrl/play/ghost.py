"""Who drives along: a trained network, or a movie of an earlier drive. Each has a console of its own."""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from kartrl.envs.race import Course
from kartrl.envs.retro import Console
from kartrl.evaluate import Driver, steps
from kartrl.play.laps import Drive
from kartrl.play.movie import Movie


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


class PolicyGhost:
    """A trained network, which acts every `frame_skip` ticks as in training.

    Args:
        driver: of which this ghost is the only user.
        circuit: name of the circuit.
        console: of the same game, only to look at the start.
    """

    def __init__(self, driver: Driver, circuit: str, greedy: bool, console: Console, course: Course | None, name: str) -> None:
        self.name = name
        self._driver, self._circuit, self._greedy = driver, circuit, greedy
        self._game, self._course = console.game, course
        self._ahead: deque[dict[str, int]] = deque()  # race states of the step under way, a tick each
        self._steps: Iterator[object] = iter(())
        driver.env.unwrapped.on_frame = self._look  # type: ignore[attr-defined]
        console.load(circuit)
        self._start = console.race()
        self.begin()

    def begin(self) -> None:
        """Go to the start."""
        self._ahead.clear()
        env, model, device = self._driver.env, self._driver.model, self._driver.device
        self._steps = steps(env, model, self._circuit, greedy=self._greedy, device=device, seed=0, noop=0)
        self.race = self._start
        self.drive = Drive(self._game, self._course, self._start)

    def tick(self) -> None:
        """Drive for one sixtieth of a second."""
        if not self._ahead:
            next(self._steps, None)
        if self._ahead:
            self.race = self._ahead.popleft()
            self.drive.update(self.race)

    def _look(self, _: np.ndarray) -> None:
        self._ahead.append(self._driver.env.unwrapped.race())  # type: ignore[attr-defined]
