"""The main loop of the window: sixty ticks per second, events, and switching between menu and race."""

from pathlib import Path

import pygame

from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.play.menu import Menu
from kartrl.kart.play.racing import Racing, Shelf
from kartrl.kart.play.session import Session
from kartrl.kart.play.stage import Stage
from kartrl.viewer.loop import keep_going
from kartrl.viewer.pad import Pad
from kartrl.viewer.window import Window


class App:
    """Connects a window to a stage.

    Args:
        output: file for the movie of the first race; None: movies are saved only on a key.

    Raises:
        UserError: the first session cannot be created.
    """

    def __init__(self, stage: Stage, window: Window, output: Path | None) -> None:
        self._stage, self._window = stage, window
        self.shelf = Shelf(output)
        self._pad = Pad(arrows_drive=stage.bundled)
        self.open = True
        """Whether the player has not quit."""
        self._menu: Menu | None = None
        self.racing: Racing | None = None
        first = stage.first()
        if first is None:
            self._menu = Menu(stage)
        else:
            self._enter(first)

    def run(self) -> None:
        """Run until the player quits."""
        try:
            keep_going(self, TICKS_PER_SECOND)
        finally:
            if self.racing is not None:  # also on SIGTERM
                self.racing.leave()

    def take(self, event: pygame.event.Event) -> None:
        self._pad.take(event)
        if event.type == pygame.QUIT:
            self.open = False
        elif event.type == pygame.KEYDOWN and event.key == pygame.K_F11:
            self._window.toggle_full_screen()
        elif self.racing is not None:
            self.racing.take(event)
            if self.racing.over:
                self.racing = None
                if self._menu is None:
                    self.open = False
                else:
                    self._menu.begin()
        elif self._menu is not None:
            self._menu.take(event)
            self.open &= not self._menu.over
            if self._menu.chosen is not None:
                self._enter(self._menu.chosen)

    def tick(self) -> None:
        """Advance by a sixtieth of a second."""
        if self.racing is not None:
            self.racing.tick()

    def draw(self) -> None:
        self._window.begin()
        screen = self.racing or self._menu
        if screen is not None:
            screen.draw(self._window)
        self._window.show()

    def _enter(self, session: Session) -> None:
        leave = "quit" if self._menu is None else "circuits"
        self._pad.release()
        self.racing = Racing(session, self._stage.folder, self._stage.bundled, self._pad, self.shelf, leave)
