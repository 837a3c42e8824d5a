"""What differs between games: the contents of a `game.json`."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from kartrl.config import View

USUAL = View(frame_skip=5, frame_stack=1, height=54, width=52, grayscale=True)
TICKS_PER_SECOND = 60
VIEW_ROWS = slice(8, 108)  # of the bundled game's screen, with sky and ground: the view from the kart
KMH = 30 / 192  # per unit of speed, as shown by the bundled game's panel


class Game(NamedTuple):
    """Constants that differ between games: the contents of a `game.json`."""

    title: str
    laps: int  # per race
    lap_zero: int  # value of `lap` in the first lap
    ticks_per_frame: int  # maximum ticks of game logic per video frame; 1: not adjustable
    start_section: bool  # whether the ROM can place the kart at any section
    opponents: int  # maximum number of opponents
    ticks_among_opponents: list[int]  # as `ticks_per_frame`, with one opponent, two, ...
    ground_rows: list[int] | None  # first screen row of the ground, and of the map below; None: all are drawn
    speed_scale: float  # converts `speed` to units in which full speed is about 1000
    wrong_way: int  # value of `lakitu` while driving the wrong way
    road: dict[int, str]  # `ground_type` -> name, on the road
    off_road: dict[int, str]  # `ground_type` -> name, off the road
    shortcuts: bool = False  # whether the ROM drives the same with those of `kartrl.console.core_patches`

    def laps_done(self, race: dict[str, int]) -> int:
        """Completed laps of a raw race state, 0 to `laps`."""
        return max(0, min(self.laps, race["lap"] - self.lap_zero))

    def ground(self, ground_type: int) -> str:
        """Name of the ground under the kart."""
        return self.road.get(ground_type) or self.off_road.get(ground_type) or f"ground {ground_type}"


def load_game(file: Path) -> Game:
    """Read a `game.json`."""
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for kind in ("road", "off_road"):
        table[kind] = {int(number): word for number, word in table[kind].items()}
    return Game(**table)
