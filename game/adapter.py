"""TEMPORARY: a Block from the old track.py, until kartrl.circuits.ground is there."""

from pathlib import Path

import art_panel
import numpy as np
import palette as pal
import tiles
import track

from kartrl.circuits.block import Block
from kartrl.circuits.surfaces import CODES


def compile_circuit(path: Path) -> Block:
    old = track.load(path)
    outside = np.asarray(pal.OUTSIDE).reshape(64)
    cut = tiles.cut(old.picture)
    surface = (old.cells >> 6).reshape(-1)
    numbers = np.zeros(128 * 128, np.uint8)
    chosen, codes, at = [], [], 0
    for code, limit in ((track.ROAD, 120), (track.GRASS, 110), (track.WALL, 26)):
        which = surface == code
        part, found = tiles.reduce(cut[which], pal.GROUND, outside, limit)
        numbers[which] = found + at
        chosen.append(part)
        name = ("asphalt", "grass", "wall")[code]
        codes += [CODES[name]] * limit
        at += limit
    codes[0] = CODES["wall"]
    words = np.zeros(128, np.uint16)
    for index, (red, green, blue) in {**pal.GROUND, **art_panel.COLOURS}.items():
        words[index] = red | green << 5 | blue << 10
    mini = np.full(32, 1, np.uint8)
    mini[CODES["grass"]], mini[CODES["wall"]] = 3, 4
    return Block(
        old.title, "asphalt", old.length, tuple(old.gates), numbers.reshape(128, 128), np.concatenate(chosen).reshape(256, 8, 8),
        (old.cells & 63)[::2, ::2].copy(), np.array(codes, np.uint8), (), mini, words,
    )
