"""A trained network as the ghost; apart from `ghost`, since PyTorch takes its time to load."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from kartrl.kart.play.laps import Drive
from kartrl.kart.race import Course, Game
from kartrl.runtime.driving import Driver, steps


class PolicyGhost:
    """A trained network, which acts every `frame_skip` ticks as in training.

    Args:
        driver: of which this ghost is the only user.
        circuit: name of the circuit, or path of a start state.
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
        self._ahead: deque[dict[str, int]] = deque()  # race states of the step under way, a tick each
        self._steps: Iterator[object] = iter(())
        driver.env.unwrapped.on_frame = self._look  # type: ignore[attr-defined]
        self.begin()

    def begin(self) -> None:
        """Go to the start."""
        self._ahead.clear()
        env, network = self._driver.env, self._driver.network
        start = {"circuit": self._circuit, "noop": 0}
        self._steps = steps(env, network, start, greedy=self._greedy, seed=0)
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
