"""The menu of circuits."""

import numpy as np
import numpy.typing as npt
import pygame

from kartrl.console.isolated_emulator import EmulatorLost
from kartrl.errors import UserError
from kartrl.kart.game import VIEW_ROWS
from kartrl.kart.levels import circuit_name
from kartrl.kart.play import views
from kartrl.kart.play.session import Session
from kartrl.kart.play.stage import POWER_ON, Stage
from kartrl.viewer.window import Window

EASY = "MarioCircuit.Act1"  # default for beginners
KEYS = (("up, down", "choose"), ("enter", "race"), ("F11", "full screen"), ("esc", "quit"))
STEPS = {
    pygame.K_UP: -1, pygame.K_DOWN: 1, pygame.K_PAGEUP: -5, pygame.K_PAGEDOWN: 5,
}  # fmt: skip
PAD_STEPS = {pygame.CONTROLLER_BUTTON_DPAD_UP: -1, pygame.CONTROLLER_BUTTON_DPAD_DOWN: 1}


class Menu:
    """Lets the player choose a circuit from `stage.choices()`."""

    def __init__(self, stage: Stage) -> None:
        self.over = False
        """Whether the player has left."""
        self.chosen: Session | None = None
        """The race that was chosen."""
        self._stage = stage
        choices = stage.choices()
        self._place = choices.index(EASY) if EASY in choices else 0
        self.begin()

    def begin(self) -> None:
        """Show the list, including start states added meanwhile."""
        self.chosen = None
        self._error = ""
        self._choices = self._stage.choices()
        self._entries = [(circuit_name(name) or "power on", self._note(name)) for name in self._choices]
        self._load_images()

    def take(self, event: pygame.event.Event) -> None:
        if event.type == pygame.KEYDOWN:
            if event.key in STEPS:
                self._move(STEPS[event.key])
            elif event.key in (pygame.K_RETURN, pygame.K_KP_ENTER, pygame.K_x):
                self._choose()
            elif event.key == pygame.K_ESCAPE:
                self.over = True
        elif event.type == pygame.CONTROLLERBUTTONDOWN:
            if event.button in PAD_STEPS:
                self._move(PAD_STEPS[event.button])
            elif event.button in (pygame.CONTROLLER_BUTTON_A, pygame.CONTROLLER_BUTTON_START):
                self._choose()

    def _move(self, step: int) -> None:
        self._place = (self._place + step) % len(self._choices)
        self._error = ""
        self._load_images()

    def _choose(self) -> None:
        try:
            self.chosen = self._stage.session(self._choices[self._place])
        except EmulatorLost:
            raise
        except UserError as error:
            self._error = str(error)

    def _note(self, name: str) -> str:
        """A circuit's title and kind, if the game has them."""
        if name == POWER_ON:
            return ""
        try:
            self._stage.console.load(name)
        except EmulatorLost:
            raise
        except UserError:  # shown when it is chosen
            return ""
        block = self._stage.console.block()
        return "" if block is None else f"{block.title.title()}, {block.kind}"

    def _load_images(self) -> None:
        """Load images of the chosen circuit: the view at the start, and the map if the game has one."""
        self._pictures: list[npt.NDArray[np.uint8]] = []
        name = self._choices[self._place]
        if name != POWER_ON:
            try:
                self._stage.console.load(name)
                self._stage.console.step(0)
            except EmulatorLost:  # no other circuit could be shown either
                raise
            except UserError as error:
                self._error = str(error)
            else:
                self._pictures.append(self._stage.console.screen()[VIEW_ROWS])
                block = self._stage.console.block()
                if block is not None:
                    self._pictures.append(block.image())

    def draw(self, window: Window) -> None:
        views.menu(
            window, self._stage.console.game.title, self._entries, self._place, self._pictures, self._error, KEYS
        )
