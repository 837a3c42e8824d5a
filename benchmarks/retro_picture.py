"""Takes pictures of retro games that need no ROM of yours, and of Rapids' courses, each after some seconds of play.

python benchmarks/retro_picture.py docs        (writes retro_games.png and rapids.png there)
"""

import sys
from pathlib import Path

import cv2
import numpy as np

from kartrl.console.libretro import Image
from kartrl.console.picture import beside
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.metrics.video import png
from kartrl.retro.buttons import encode
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import Game, find_game, game_in

SIZE = 320, 240  # of each
HELD = 12  # frames for which a choice of buttons is held
RAPIDS, STEERED = find_game("Rapids-Nes-v0"), ("", "LEFT", "RIGHT")
SHOWN: dict[str, tuple[tuple[Game, str, int, tuple[str, ...]], ...]] = {
    "retro_games": (
        (find_game("Airstriker-Genesis-v0"), "Level1", 205, ("B", "LEFT+B", "RIGHT+B", "B")),
        (RAPIDS, "Level01", 60, STEERED),
        (game_in(GAMES / BUNDLED), "MarioCircuit.Act1", 160, ("B",)),
    ),
    "rapids": tuple((RAPIDS, state, 60, STEERED) for state in ("Level04", "Level17", "Level38", "Level55")),
}  # game, start state, frames, choices


def screen_of(game: Game, state: str, frames: int, choices: tuple[str, ...]) -> Image:
    """The screen after random choices of buttons."""
    console, random = RetroConsole(game), np.random.default_rng(2)
    console.begin_episode(state)
    for frame in range(frames):
        if frame % HELD == 0:
            names = [name for name in str(random.choice(choices)).split("+") if name]
            held = encode(names, game.system.buttons, game.name)
        console.advance(held)
    screen = console.screen()
    console.close()
    return np.asarray(cv2.resize(screen, SIZE, interpolation=cv2.INTER_AREA), np.uint8)


def main() -> None:
    for name, shown in SHOWN.items():
        first, *others = (screen_of(*each) for each in shown)
        for other in others:
            first = beside(first, other)
        Path(sys.argv[1], f"{name}.png").write_bytes(png(first))


if __name__ == "__main__":
    main()
