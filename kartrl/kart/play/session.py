"""A race by a player or from a movie: the console, the ghost, lap times, and the buttons pressed so far."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kartrl.console.movie import Movie
from kartrl.kart.console import KartConsole, Place
from kartrl.kart.play.ghost import Ghost
from kartrl.kart.play.laps import Drive
from kartrl.kart.progress import Course


class Session:
    """Races on one circuit.

    Args:
        console: used by this session only, while it lasts.
        circuit: name to show and to save in movies; "" after power-on.
        start: the console's state at the start.
        course: of the circuit, if known.
        script: a movie's buttons of each tick; None: those passed to `tick`.
        ghost: opponent with its own console.
        opponents: number of karts driven by the game; not with a ghost.

    Raises:
        UserError: the game cannot have that many opponents.
    """

    def __init__(
        self,
        console: KartConsole,
        circuit: str,
        start: bytes,
        course: Course | None = None,
        script: Sequence[int] | None = None,
        ghost: Ghost | None = None,
        opponents: int = 0,
    ) -> None:
        self.console = console
        self.circuit = circuit
        self.ghost = ghost
        self._course = course
        self._script = script
        console.restore(start)
        if console.game.ticks_per_frame > 1:  # part of the start state, so that movies run one tick per frame
            console.set_value("ticks", 1)
        if opponents:
            console.set_opponents(opponents)  # part of the start state: movies need nothing else
        self.opponents = opponents
        self._start = console.save()
        block = console.block() if circuit else None
        self.title = "" if block is None else block.title.title()
        """Of the circuit, if the game has titles."""
        self.best: float | None = None
        """Seconds of the best lap of all races."""
        self.begin()

    def begin(self) -> None:
        """Start the race again."""
        self.console.restore(self._start)
        self.drive = Drive(self.console.game, self._course, self.console.race())
        self._inputs: list[int] = []
        if self.ghost is not None:
            self.ghost.begin()
        self.tick(0)  # updates the screen; a movie's first frame has no button held

    def tick(self, buttons: int) -> None:
        """Advance by a sixtieth of a second with these buttons held, or those of the script."""
        if self._script is not None:
            buttons = 0 if self.ended else self._script[len(self._inputs)]
        if self.ghost is not None:
            self._follow(self.ghost)
        self.console.step(buttons)
        if not self.ended:  # the movie ends with the race
            self._inputs.append(buttons)
            self.drive.update(self.console.race())
            best = self.drive.best
            self.best = best if self.best is None or (best is not None and best < self.best) else self.best

    def _follow(self, ghost: Ghost) -> None:
        ghost.tick()
        if self.console.shows_ghosts:
            race = ghost.race
            self.console.place_ghosts([Place(race["x"], race["y"], race["kart_angle"], ghost.drive.sections)])

    @property
    def driven(self) -> bool:
        """Whether a player drives, not a movie."""
        return self._script is None

    @property
    def ended(self) -> bool:
        """Whether the race or the movie is over."""
        if self._script is not None and len(self._inputs) >= len(self._script):
            return True
        # after power-on any number of races can be driven
        return self.drive.finished and bool(self.circuit)

    @property
    def ticks(self) -> int:
        return len(self._inputs)

    @property
    def rank(self) -> int:
        """Rank among the opponents, from 1."""
        return self.console.race()["rank"] // 2 + 1

    @property
    def gap(self) -> float | None:
        """Seconds behind the ghost, negative when ahead; None without a ghost."""
        return None if self.ghost is None else self.drive.gap(self.ghost.drive)

    def screen(self) -> npt.NDArray[np.uint8]:
        """The console's screen, uint8 [224, 256, 3]."""
        return self.console.screen()

    def movie(self) -> Movie:
        """The race so far as a movie."""
        return Movie(self.console.folder.name, self.circuit, self._start, tuple(self._inputs))

    def state(self) -> bytes:
        """The console's current state as a start state: without this session's commands and ghost."""
        console, here = self.console, self.console.save()
        for command in ("ticks", "opponents"):
            if command in console.race():
                console.set_value(command, 0)
        state = console.save()
        console.restore(here)
        return state
