"""The screen of a race or a movie: its keys, and the files that it writes."""

import time
from pathlib import Path

import pygame

from kartrl.console.movie import Movie, write_movie
from kartrl.errors import UserError
from kartrl.files import explained, unused_file
from kartrl.kart.play import views
from kartrl.kart.play.question import Question
from kartrl.kart.play.session import Session
from kartrl.viewer.pad import Pad
from kartrl.viewer.window import Window

GAMEPAD_NEWS = {pygame.CONTROLLERDEVICEADDED: "gamepad connected", pygame.CONTROLLERDEVICEREMOVED: "gamepad removed"}
SHOWN = 5.0  # seconds for which a notice is shown
KART_KEYS = (("left, right", "steer"), ("X or up", "drive"), ("C or down", "brake"), ("space", "hop; held: slide"))
CONSOLE_KEYS = (("arrows", "cross"), ("X C V D", "B Y A X"), ("shift, space", "L, R"), ("enter, back", "start, select"))
RACE_KEYS = (("P, R", "pause, restart"), ("F2", "save movie"), ("F3", "save start state"), ("F11", "full screen"))
MOVIE_KEYS = (("P, R", "pause, restart"), ("F3", "save start state"), ("F11", "full screen"))


class Shelf:
    """Where movies are saved.

    Args:
        output: file for the first race; later ones are saved next to it. None: races are saved only on a key.
    """

    def __init__(self, output: Path | None) -> None:
        self.keeps_all = output is not None
        self.written: list[Path] = []
        """The files written so far."""
        self._output = output

    def save(self, name: str, movie: Movie, file: Path | None = None) -> Path:
        """Save the movie of a race as `file` or, if that is None, as a new file: `output`, else `name`, numbered.

        Raises:
            UserError: it cannot be written.
        """
        if file is not None:
            write_movie(file, movie)
            return file
        wanted = self._output or Path(f"{name}.bk2")
        with explained(wanted, "write", "choose another folder"), unused_file(wanted) as new:
            write_movie(new, movie)
        self.add(new)
        return new

    def add(self, file: Path) -> None:
        """Note that a file has been written."""
        if file not in self.written:
            self.written.append(file)


class Racing:
    """Shows a session in the window.

    Args:
        bundled: whether the game is the bundled one.
        leave: description of what Esc does.
    """

    def __init__(self, session: Session, folder: Path, bundled: bool, pad: Pad, shelf: Shelf, leave: str) -> None:
        self.over = False
        """Whether the player has left."""
        self.session, self._folder, self._bundled, self._pad, self._shelf = session, folder, bundled, pad, shelf
        self._keys: views.Keys = (
            (*(KART_KEYS if bundled else CONSOLE_KEYS), *RACE_KEYS) if session.driven else MOVIE_KEYS
        )
        self._keys = (*self._keys, ("esc", leave), ("", "no sound"))
        self._question: Question | None = None
        self._notice, self._notice_time = "", 0.0
        self._begin()

    def _begin(self) -> None:
        self._paused = False
        self._waiting = self.session.driven and bool(self.session.circuit)  # for the first key press of the race
        self._movie: Path | None = None  # file of this race
        self._kept = 0  # ticks saved in it

    def take(self, event: pygame.event.Event) -> None:
        if self._question is not None:
            self._question.take(event)
            if self._question.over:
                if self._question.written is not None:
                    self._shelf.add(self._question.written)
                    self._notify(f"saved {self._question.written}")
                self._question = None
                self._pad.release()  # keys typed in the dialog
            return
        if event.type == pygame.WINDOWFOCUSLOST:
            self._paused = not self._waiting
        elif event.type in GAMEPAD_NEWS:
            self._notify(GAMEPAD_NEWS[event.type])
        elif event.type == pygame.CONTROLLERBUTTONDOWN and self._bundled:  # the bundled game does not use these two
            if event.button == pygame.CONTROLLER_BUTTON_START:
                self._paused = not self._paused
            elif event.button == pygame.CONTROLLER_BUTTON_BACK:
                self._restart()
        elif event.type == pygame.KEYDOWN:
            self._press(event.key)

    def _press(self, key: int) -> None:
        if key == pygame.K_ESCAPE:
            self.leave()
        elif key in (pygame.K_p, pygame.K_PAUSE):
            self._paused = not self._paused
        elif key == pygame.K_r:
            self._restart()
        elif key == pygame.K_F2 and self.session.driven:
            self._keep()
        elif key == pygame.K_F3:
            self._question = Question(self.session, self._folder)

    def tick(self) -> None:
        """Advance by a sixtieth of a second."""
        buttons = self._pad.buttons()
        if self._waiting and buttons:
            self._waiting = False
        if self._paused or self._waiting or self._question is not None:
            return
        ended = self.session.ended
        if ended and not self.session.driven:
            return  # the movie's last frame stays on screen
        self.session.tick(buttons)
        if self.session.ended and not ended and self._shelf.keeps_all:
            self._keep()

    def leave(self) -> None:
        """End the session; saves the movie if requested."""
        if self._shelf.keeps_all:
            self._keep()
        self.over = True

    def _restart(self) -> None:
        if self._shelf.keeps_all:
            self._keep()
        self.session.begin()
        self._begin()

    def _keep(self) -> None:
        """Save the race so far to its file, if there are new ticks."""
        session = self.session
        if not session.driven or session.ticks in (1, self._kept):
            return
        try:
            self._movie = self._shelf.save(session.circuit or self._folder.name, session.movie(), self._movie)
        except UserError as error:
            self._notify(str(error))
            return
        self._kept = session.ticks
        self._notify(f"saved as {self._movie}")

    def _notify(self, text: str) -> None:
        self._notice, self._notice_time = text, time.monotonic()

    def draw(self, window: Window) -> None:
        session = self.session
        views.race(window, session, self._shelf.keeps_all and session.driven, self._keys)
        if self._question is not None:
            views.question(window, "Save a start state", self._question.text, self._question.lines())
        elif self._paused:
            views.message(window, "PAUSE", ["P: resume    R: restart"])
        elif self._waiting:
            views.message(
                window,
                "READY",
                ["the clock starts with the first key press", "hold X or up to drive" if self._bundled else ""],
            )
        elif session.ended and session.driven:
            views.message(
                window,
                "FINISH",
                [
                    f"{views.clock(session.drive.total or 0)}, best lap {views.clock(session.drive.best or 0)}",
                    "R: race again    esc: leave",
                ],
            )
        elif session.ended:
            views.message(window, "END OF THE MOVIE", ["R: replay    esc: leave"])
        if self._notice and time.monotonic() - self._notice_time < SHOWN:
            views.notice(window, self._notice)
