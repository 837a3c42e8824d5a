"""A trained network as the ghost; separate from `ghost`, since importing PyTorch is slow."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from kartrl.driving.driver import Driver
from kartrl.driving.episodes import steps
from kartrl.kart.game import Game
from kartrl.kart.play.laps import Drive
from kartrl.kart.progress import Course


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
