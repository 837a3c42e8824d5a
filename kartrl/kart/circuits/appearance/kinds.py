"""Definition of a kind of circuit: its colours, textures, and layers by distance from the road."""

from typing import NamedTuple

import numpy as np

from kartrl.kart.circuits.appearance.art import Art
from kartrl.kart.circuits.appearance.surfaces import CODES

Colour = tuple[int, int, int]
"""Red, green, blue, 0 to 31."""
FAR = 9999


class Layer(NamedTuple):
    """A texture up to `until` pixels beyond the road's edge."""

    until: float
    art: Art
    where: str = ""  # "turn": only at bends; "south": only south of the road; "steep": only where it runs north-south


class Pool(NamedTuple):
    """Texture of a patch of other ground."""

    art: Art
    rim: str


class Kind(NamedTuple):
    """A kind of circuit; the characters of its textures are keys of `colours`."""

    road: str  # name of its surface
    colours: dict[str, Colour]
    layers: tuple[Layer, ...]  # from the road outwards
    grounds: tuple[tuple[float, str], ...]  # outer limit in pixels beyond the road's edge, surface
    outside: Art  # texture of tile 0, also outside the map
    block: Art  # a wall
    rail: str  # light, middle and dark of a rail
    sky: tuple[Colour, ...]  # twelve: five from the top down, cloud, two far hills, three near hills, peaks
    mini: dict[str, Colour]  # minimap colours by surface; default: as off-road
    tree: Art | None = None
    trees: int = 0  # attempts with `scenery = 1`
    tree_on: tuple[int, ...] = ()
    flats: tuple[tuple[Art, int, tuple[int, ...]], ...] = ()  # flat decoration: texture, attempts, surfaces
    pools: dict[str, Pool] = {}  # noqa: RUF012  # never mutated
    clear: float = 14  # pixels between the road and scenery
    border: bool = True  # whether a wall surrounds the map
    wave: float = 0  # amplitude of a coast's variation, pixels
    narrowest: float = 56  # minimum width of the road, pixels


COMMON: dict[str, Colour] = {  # colours that all kinds share: digits, K and W
    "W": (31, 31, 31), "K": (2, 2, 4), "0": (29, 9, 3), "1": (20, 3, 2), "9": (31, 31, 18),
    "4": (3, 9, 27), "5": (31, 27, 6), "6": (31, 26, 5), "7": (22, 13, 1),
}  # fmt: skip
MINI_COMMON: dict[str, Colour] = {"boost": (31, 10, 4), "jump": (6, 14, 31), "coin": (31, 27, 8)}
PANEL: dict[int, Colour] = {
    80 + 1: (3, 4, 9), 80 + 2: (4, 6, 13), 80 + 3: (8, 12, 22), 80 + 4: (14, 19, 28),
    80 + 5: (31, 31, 31), 80 + 6: (31, 27, 8), 80 + 7: (18, 22, 28), 80 + 8: (26, 6, 6),
}  # fmt: skip


def palette(kind: Kind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The console's palette of a kind.

    Returns:
        Colour number of each character, uint8 [128]; colours 0 to 63, uint8 [64, 3]; all palette words, uint16 [128].
    """
    inks = {**COMMON, **kind.colours}
    number = np.zeros(128, np.uint8)
    table = np.zeros((128, 3), np.uint16)
    for index, (ink, colour) in enumerate(inks.items(), 1):
        number[ord(ink)] = index
        table[index] = colour
    if len(inks) > 63:
        raise ValueError(f"{len(inks)} colours: the ground has room for 63")
    for index, colour in enumerate(kind.sky, 65):
        table[index] = colour
    for index, colour in PANEL.items():
        table[index] = colour
    for index, (_, colour) in enumerate(sorted(mini_colours(kind)[1].items()), 97):
        table[index] = colour
    return number, table[:64].astype(np.uint8), (table[:, 0] | table[:, 1] << 5 | table[:, 2] << 10).astype(np.uint16)


def mini_colours(kind: Kind) -> tuple[np.ndarray, dict[int, Colour]]:
    """Minimap colour number of each surface, uint8 [32], and those colours by number, from 1."""
    number = np.ones(32, np.uint8)
    colours: dict[int, Colour] = {}
    shown = {**MINI_COMMON, **kind.mini}
    off = kind.grounds[-1][1]
    for index, name in enumerate([off, *(name for name in shown if name != off)], 1):
        colours[index] = shown[name]
        number[CODES[name]] = index
    return number, colours
