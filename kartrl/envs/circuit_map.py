"""The map of a circuit of the bundled game, as its ROM draws it."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

TILES, TILE = 128, 8  # tiles on a side of the map, pixels on a side of a tile


def circuit_map(game_folder: Path, circuit: str) -> npt.NDArray[np.uint8]:
    """The whole map seen from above, uint8 [1024, 1024, 3], decoded from the ROM's own tilemap, tiles and palette.

    Args:
        game_folder: holds `rom.sfc`, and `circuits.json` that tells where in it these are.

    Raises:
        KeyError: no such circuit.
    """
    places = json.loads((game_folder / "circuits.json").read_text(encoding="utf-8"))["circuits"][circuit]["map"]
    rom = np.frombuffer((game_folder / "rom.sfc").read_bytes(), np.uint8)
    tilemap = _part(rom, places["tilemap"], TILES * TILES).reshape(TILES, TILES)
    tiles = _part(rom, places["tiles"], 256 * TILE * TILE).reshape(256, TILE, TILE)
    colours = _part(rom, places["palette"], 512).view("<u2")  # 15 bits: red lowest, then green, blue
    palette = np.stack([(colours >> shift & 31) * 255 // 31 for shift in (0, 5, 10)], axis=1).astype(np.uint8)
    return palette[tiles[tilemap].transpose(0, 2, 1, 3).reshape(TILES * TILE, TILES * TILE)]


def _part(rom: npt.NDArray[np.uint8], start: int, length: int) -> npt.NDArray[np.uint8]:
    return rom[start : start + length]
