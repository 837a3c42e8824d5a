"""For the tests of playing: drives without a window, and stable-retro's own way to play a movie."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pygame
from commands import environment

from kartrl.console.libretro import BUTTONS
from kartrl.kart.play.app import App
from kartrl.kart.play.session import Session
from kartrl.kart.play.stage import Options, Stage
from kartrl.viewer.window import Window

CIRCUIT = "MarioCircuit.Act1"
PLACE = ("x", "y", "kart_angle", "speed", "checkpoint", "lap", "collision")
B, LEFT, RIGHT = (1 << BUTTONS.index(name) for name in ("B", "LEFT", "RIGHT"))
# plays a movie on stable-retro's own emulator, by its own reader, and tells how the console stands at the end
PLAYER = """
import glob, hashlib, json, sys
import numpy as np
import stable_retro as retro
folder, file = sys.argv[1:]
movie = retro.Movie(file)
emulator, data = retro.RetroEmulator(glob.glob(folder + "/rom.*[!a]")[0]), retro.data.GameData()
emulator.configure_data(data)
emulator.step()
data.load(folder + "/data.json", folder + "/scenario.json")
emulator.set_state(movie.get_state())
frames = 0
while movie.step():
    emulator.set_button_mask(np.array([movie.get_key(button, 0) for button in range(12)], np.uint8), 0)
    emulator.step()
    frames += 1
state = hashlib.sha256(emulator.get_state()).hexdigest()
print(json.dumps([movie.get_game(), movie.players, frames, state, dict(data.lookup_all())]))
"""


def apart(script: str, *arguments: object) -> str:
    """What a script prints in a process of its own: stable-retro allows one emulator in each."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True).stdout


def some_driving(ticks: int, seed: int = 3) -> list[int]:
    """Buttons for so many ticks: mostly forward, and all others now and then, each held for a while."""
    dice = random.Random(seed)
    held: list[int] = []
    while len(held) < ticks:
        pressed = dice.choice((B, B, B | LEFT, B | RIGHT, dice.getrandbits(12)))
        held += [pressed] * dice.randint(1, 30)
    return held[:ticks]


def drive(session: Session, inputs: list[int]) -> Session:
    for buttons in inputs:
        session.tick(buttons)
    return session


def on_stable_retro(folder: Path, movie: Path) -> tuple[str, int, int, str, dict[str, int]]:
    """Play a movie there; returns the game's name, the counts of players and frames, a state hash, the race state."""
    return tuple(json.loads(apart(PLAYER, folder, movie)))


def begun(**options: Any) -> tuple[Stage, Session]:
    stage = Stage(Options(game="bundled", **options))
    session = stage.first()
    assert session is not None
    return stage, session


class Player:
    """Somebody at an App in this process, on SDL's dummy display."""

    def __init__(self, **options: object) -> None:
        output = options.pop("output", None)
        self.window = Window("test")
        self.stage = Stage(Options(game="bundled", **options))  # type: ignore[arg-type]
        self.app = App(self.stage, self.window, output)  # type: ignore[arg-type]

    def hold(self, key: int, ticks: int) -> None:
        """A key, for so many ticks."""
        self.app.take(pygame.event.Event(pygame.KEYDOWN, key=key))
        self.wait(ticks)
        self.app.take(pygame.event.Event(pygame.KEYUP, key=key))

    def press(self, *keys: int) -> None:
        """Keys one after another."""
        for key in keys:
            self.hold(key, 1)

    def type(self, text: str) -> None:
        """A text."""
        self.app.take(pygame.event.Event(pygame.TEXTINPUT, text=text))

    def wait(self, ticks: int) -> None:
        """Let so many ticks go by."""
        for _ in range(ticks):
            self.app.tick()

    def look(self) -> np.ndarray:
        """The window, uint8 [H, W, 3]."""
        self.app.draw()
        return pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)

    def large(self) -> np.ndarray:
        """The race's picture, as large as in the window."""
        assert self.app.racing is not None
        return self.app.racing.session.console.picture().repeat(self.window.scale, 0).repeat(self.window.scale, 1)

    @property
    def race(self) -> dict[str, int]:
        """The race state of the console."""
        return self.stage.console.race()
