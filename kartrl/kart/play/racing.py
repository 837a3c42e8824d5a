"""The screen of a race, or of a movie: the keys during it, and the files that come out of it."""

import time
from pathlib import Path

import pygame

from kartrl.errors import UserError
from kartrl.kart.play import views
from kartrl.kart.play.movie import write_movie
from kartrl.kart.play.pad import Pad
from kartrl.kart.play.question import Question
from kartrl.kart.play.session import Session
from kartrl.kart.play.window import Window

GAMEPAD_NEWS = {pygame.CONTROLLERDEVICEADDED: "a gamepad is there", pygame.CONTROLLERDEVICEREMOVED: "a gamepad is gone"}
SHOWN = 5.0  # seconds for which is told what has happened
KART_KEYS = (("left, right", "steer"), ("X or up", "drive"), ("C or down", "brake"), ("space", "hop; held: slide"))
CONSOLE_KEYS = (("arrows", "cross"), ("X C V D", "B Y A X"), ("shift, space", "L, R"), ("enter, back", "start, select"))
RACE_KEYS = (("P, R", "pause, restart"), ("F2", "keep as movie"), ("F3", "make start state"), ("F11", "full screen"))
MOVIE_KEYS = (("P, R", "pause, restart"), ("F3", "make start state"), ("F11", "full screen"))


class Shelf:
    """Where movies are kept.

    Args:
        output: the file of the first race, and all later ones are kept beside it; None: a race is kept when the player says so.
    """

    def __init__(self, output: Path | None) -> None:
        self.keeps_all = output is not None
        self.written: list[Path] = []
        """The files that are there now."""
        self._output = output
        self._used = False

    def place(self, name: str) -> Path:
        """A file for another race; none that is there, but for the one that was asked for."""
        file = self._output or Path(f"{name}.bk2")
        number, free = 1, file
        while free.exists() and (self._used or self._output is None):
            number += 1
            free = file.with_name(f"{file.stem}-{number}{file.suffix}")
        self._used = True
        return free

    def add(self, file: Path) -> None:
        """This file has been written."""
        if file not in self.written:
            self.written.append(file)


class Racing:
    """A session in the window.

    Args:
        folder: of the game.
        bundled: whether the game is our own.
        leave: what Esc does.
    """

    def __init__(self, session: Session, folder: Path, bundled: bool, pad: Pad, shelf: Shelf, leave: str) -> None:
        self.over = False
        """Whether the player has left."""
        self._session, self._folder, self._bundled, self._pad, self._shelf = session, folder, bundled, pad, shelf
        self._keys: views.Keys = (
            (*(KART_KEYS if bundled else CONSOLE_KEYS), *RACE_KEYS) if session.driven else MOVIE_KEYS
        )
        self._keys = (*self._keys, ("esc", leave), ("", "there is no sound"))
        self._question: Question | None = None
        self._told, self._told_at = "", 0.0
        self._begin()

    def _begin(self) -> None:
        self._paused = False
        self._waiting = self._session.driven and bool(self._session.circuit)  # for the first key of the race
        self._movie: Path | None = None  # where this race is kept
        self._kept = 0  # how many of its ticks are kept

    def take(self, event: pygame.event.Event) -> None:
        """Look at an event of the window."""
        if self._question is not None:
            self._question.take(event)
            if self._question.over:
                if self._question.written is not None:
                    self._shelf.add(self._question.written)
                    self._tell(f"saved {self._question.written}")
                self._question = None
                self._pad.release()  # of what has been typed
            return
        if event.type == pygame.WINDOWFOCUSLOST:
            self._paused = not self._waiting
        elif event.type in GAMEPAD_NEWS:
            self._tell(GAMEPAD_NEWS[event.type])
        elif event.type == pygame.CONTROLLERBUTTONDOWN and self._bundled:  # our own game has no use for these two
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
        elif key == pygame.K_F2 and self._session.driven:
            self._keep()
        elif key == pygame.K_F3:
            self._question = Question(self._session, self._folder)

    def tick(self) -> None:
        """A sixtieth of a second has gone by."""
        buttons = self._pad.buttons()
        if self._waiting and buttons:
            self._waiting = False
        if self._paused or self._waiting or self._question is not None:
            return
        ended = self._session.ended
        if ended and not self._session.driven:
            return  # the movie's last picture stays
        self._session.tick(buttons)
        if self._session.ended and not ended and self._shelf.keeps_all:
            self._keep()

    def leave(self) -> None:
        """End it; what was asked to be kept is kept."""
        if self._shelf.keeps_all:
            self._keep()
        self.over = True

    def _restart(self) -> None:
        if self._shelf.keeps_all:
            self._keep()
        self._session.begin()
        self._begin()

    def _keep(self) -> None:
        """Write the race so far into its file, if there is anything new."""
        session = self._session
        if not session.driven or session.ticks in (1, self._kept):
            return
        try:
            if self._movie is None:
                self._movie = self._shelf.place(session.circuit or self._folder.name)
            write_movie(self._movie, session.movie())
        except UserError as error:
            self._tell(str(error))
            return
        self._kept = session.ticks
        self._shelf.add(self._movie)
        self._tell(f"kept as {self._movie}")

    def _tell(self, text: str) -> None:
        self._told, self._told_at = text, time.monotonic()

    def draw(self, window: Window) -> None:
        """Draw it all."""
        session = self._session
        views.race(window, session, self._shelf.keeps_all and session.driven, self._keys)
        if self._question is not None:
            views.question(window, "Make a start state", self._question.text, self._question.lines())
        elif self._paused:
            views.message(window, "PAUSE", ["P: go on    R: restart"])
        elif self._waiting:
            views.message(
                window,
                "READY",
                ["the clock starts with the first key", "hold X or up to drive" if self._bundled else ""],
            )
        elif session.ended and session.driven:
            total = sum(session.drive.lap_times)
            views.message(
                window,
                "FINISH",
                [
                    f"{views.clock(total)}, best lap {views.clock(session.drive.best or 0)}",
                    "R: race again    esc: leave",
                ],
            )
        elif session.ended:
            views.message(window, "END OF THE MOVIE", ["R: from the start    esc: leave"])
        if self._told and time.monotonic() - self._told_at < SHOWN:
            views.told(window, self._told)
