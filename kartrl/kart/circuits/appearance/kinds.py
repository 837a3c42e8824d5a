"""The kinds of circuits: colours, textures, and layers by distance from the road, as the files in `looks` give them.

A texture there is rows of characters ("ab ba"), the name of an entry of [textures], or a list: a function of `art` and
its arguments.
"""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kartrl.kart.circuits.appearance import art
from kartrl.kart.circuits.appearance.art import Art
from kartrl.kart.circuits.appearance.surfaces import CODES
from kartrl.kart.levels import KINDS as NAMES

Colour = tuple[int, int, int]
"""Red, green, blue, 0 to 31."""
FAR = 9999
MAKERS: dict[str, Callable[..., Art]] = {maker.__name__: maker for maker in (
    art.rows, art.turned, art.stretched, art.speckled, art.tufted, art.checks, art.squares, art.planks,
    art.slabs, art.ripples, art.stripes, art.ball, art.star, art.pillar, art.block,
)}  # fmt: skip


class Layer(NamedTuple):
    """A texture up to `until` pixels beyond the road's edge."""

    art: Art
    until: float = FAR
    where: str = ""  # "turn": only at bends; "south": only south of the road; "steep": only where it runs north-south


class Ground(NamedTuple):
    """What a kart drives on up to `until` pixels beyond the road's edge."""

    surface: str
    until: float = FAR


class Scenery(NamedTuple):
    """A tree, or flat decoration."""

    art: Art
    attempts: int  # to place one, with `scenery = 1`
    on: tuple[int, ...]  # codes of surfaces


class Pool(NamedTuple):
    """Texture of a patch of other ground."""

    art: Art
    rim: str


class Kind(NamedTuple):
    """A kind of circuit; the characters of its textures are keys of `colours`."""

    road: str  # name of its surface
    colours: dict[str, Colour]
    layers: tuple[Layer, ...]  # from the road outwards
    grounds: tuple[Ground, ...]  # likewise
    outside: Art  # texture of tile 0, also outside the map
    block: Art  # a wall
    rail: str  # light, middle and dark of a rail
    sky: tuple[Colour, ...]  # twelve: five from the top down, cloud, two far hills, three near hills, peaks
    mini: dict[str, Colour]  # minimap colours by surface; default: as off-road
    pools: dict[str, Pool]  # by surface
    flats: tuple[Scenery, ...]
    tree: Scenery | None
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


def _read(name: str) -> Kind:
    table: dict[str, Any] = tomllib.loads((Path(__file__).parent / "looks" / f"{name}.toml").read_text("utf-8"))
    known: dict[str, Art] = {}

    def texture(given: str | Sequence[Any]) -> Art:
        if isinstance(given, str):
            return known[given] if given in known else art.rows(given)
        maker, arguments = given[0], given[1:]
        return MAKERS[maker](*(texture(a) if isinstance(a, list) or a in known else a for a in arguments))

    def entry(given: dict[str, Any]) -> dict[str, Any]:
        on = {"on": tuple(CODES[surface] for surface in given["on"])} if "on" in given else {}
        return given | {"art": texture(given["art"])} | on

    for key, given in table.pop("textures", {}).items():
        known[key] = texture(given)
    fields = {
        "layers": tuple(Layer(**entry(layer)) for layer in table["layers"]),
        "grounds": tuple(Ground(**ground) for ground in table["grounds"]),
        "outside": texture(table["outside"]),
        "block": texture(table["block"]),
        "sky": tuple(map(tuple, table["sky"])),
        "pools": {surface: Pool(**entry(pool)) for surface, pool in table.get("pools", {}).items()},
        "flats": tuple(Scenery(**entry(flat)) for flat in table.get("flats", ())),
        "tree": Scenery(**entry(table["tree"])) if "tree" in table else None,
    }
    return Kind(**{**table, **fields})


KINDS = {name: _read(name) for name in NAMES}


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
    off = kind.grounds[-1].surface
    for index, name in enumerate([off, *(name for name in shown if name != off)], 1):
        colours[index] = shown[name]
        number[CODES[name]] = index
    return number, colours
