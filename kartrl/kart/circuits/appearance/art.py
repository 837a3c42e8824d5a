"""Textures of the ground: arrays of characters, each stands for a colour of the kind; a space is transparent."""

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Art = npt.NDArray[np.uint8]
"""uint8 [height, width], character codes."""
CLEAR = ord(" ")


def rows(text: str) -> Art:
    """Parse rows separated by blanks; a dot is transparent."""
    return np.array([[CLEAR if c == "." else ord(c) for c in row] for row in text.split()], np.uint8)


def turned(texture: Art) -> Art:
    """Rows as columns."""
    return texture.T.copy()


def stretched(texture: Art, down: int, across: int) -> Art:
    """Each pixel as several."""
    return texture.repeat(down, 0).repeat(across, 1)


def speckled(base: str, spots: str, size: int, seed: int) -> Art:
    """A square of one colour with single pixels of others."""
    draw = random.Random(seed)
    out = np.full((size, size), ord(base), np.uint8)
    for spot in spots:
        out[int(draw.random() * size), int(draw.random() * size)] = ord(spot)
    return out


def tufted(base: str, dark: str, light: str, size: int, count: int, seed: int) -> Art:
    """A square of one colour with small tufts: a light pixel over dark ones."""
    draw = random.Random(seed)
    out = np.full((size, size), ord(base), np.uint8)
    for _ in range(count):
        y, x = int(draw.random() * size), int(draw.random() * size)
        for dy, dx, ink in ((0, 0, light), (1, -1, dark), (1, 1, dark), (1, 0, light), (2, 0, dark)):
            out[(y + dy) % size, (x + dx) % size] = ord(ink)
    return out


def checks(one: Art, other: Art, size: int) -> Art:
    """A checkerboard of two patterns, squares of `size` pixels."""
    a, b = (np.tile(part, (size // part.shape[0], size // part.shape[1])) for part in (one, other))
    return np.block([[a, b], [b, a]])


def squares(shades: str, line: str) -> Art:
    """Diagonal rows of squares of 16 pixels, each a shade, with lines at their upper and left edges."""
    count = len(shades)
    inks = np.array([[ord(shades[(i + j) % count]) for i in range(count)] for j in range(count)], np.uint8)
    out = inks.repeat(16, 0).repeat(16, 1)
    out[::16] = out[:, ::16] = ord(line)
    return out


def planks(shades: str, gap: str, knot: str) -> Art:
    """Planks that run east to west, 8 pixels wide, uint8 [32, 32]."""
    out = np.zeros((32, 32), np.uint8)
    for row in range(4):
        plank = out[row * 8 : row * 8 + 8]
        plank[:] = ord(shades[row % len(shades)])
        plank[1, :] = ord(shades[(row + 1) % len(shades)])
        plank[7, :] = ord(gap)
        plank[:, (row * 16 + 6) % 32] = ord(gap)
        plank[3, (row * 20 + 12) % 32] = plank[3, (row * 20 + 13) % 32] = ord(knot)
    return out


def slabs(face: str, light: str, dark: str, size: int = 16) -> Art:
    """Square slabs, lit from the north-west."""
    out = np.full((size, size), ord(face), np.uint8)
    out[0, :] = out[:, 0] = ord(light)
    out[-1, :] = out[:, -1] = ord(dark)
    return out


def ripples(base: str, crest: str, trough: str, size: int, count: int, seed: int) -> Art:
    """Water or furrows: short horizontal strokes, a crest over a trough."""
    draw = random.Random(seed)
    out = np.full((size, size), ord(base), np.uint8)
    for _ in range(count):
        y, x, long = int(draw.random() * size), int(draw.random() * size), 3 + int(draw.random() * 4)
        for k in range(long):
            out[y, (x + k) % size] = ord(crest)
            out[(y + 1) % size, (x + k + 1) % size] = ord(trough)
    return out


def stripes(one: str, other: str, width: int) -> Art:
    """Diagonal stripes."""
    size = width * 2
    y, x = np.mgrid[0:size, 0:size]
    return np.where((x + y) % size < width, ord(one), ord(other)).astype(np.uint8)


def shaped(size: int, ink: Callable[[int, int], str]) -> Art:
    """A square texture: `ink` maps (x, y), twice the pixel's offset east and south of the centre, to a character."""
    span = range(1 - size, size, 2)
    return np.array([[ord(ink(x, y)) for x in span] for y in span], np.uint8)


def ball(size: int, light: str, mid: str, dark: str, rim: str) -> Art:
    """A round treetop seen from above, lit from the north-west."""

    def ink(x: int, y: int) -> str:
        away = x * x + y * y
        lit = (x + size // 3) ** 2 + (y + size // 3) ** 2 + 90 * ((x * 5 + y * 3) // 2 % 4)
        if away >= (size - 1) ** 2:
            return " "
        if away > (size - 4) ** 2:
            return rim
        return light if lit < size * size // 3 else mid if lit < size * size else dark

    return shaped(size, ink)


def star(size: int, light: str, dark: str, rim: str, core: str) -> Art:
    """Eight leaves around a trunk: a palm or a pine seen from above."""

    def ink(x: int, y: int) -> str:
        a, b = abs(x), abs(y)
        away = x * x + y * y
        if away < 10:
            return core
        if away > (size - 1) ** 2:
            return " "
        leaf = min(a, b, abs(a - b)) * 5 < size + (size * size - away) // size * 2
        if not leaf:
            return rim if away < (size * 2 // 3) ** 2 else " "
        return light if x + y < 2 and min(a, b, abs(a - b)) < 3 else dark

    return shaped(size, ink)


def pillar(size: int, light: str, mid: str, dark: str, core: str) -> Art:
    """A square block with a round top."""

    def ink(x: int, y: int) -> str:
        away = x * x + y * y
        if away < (size // 3) ** 2:
            return core
        if away < (size // 2) ** 2:
            return dark
        edge = max(abs(x), abs(y))
        if edge > size - 4:
            return light if (x < y and -x > y) or (y < 0 and abs(x) <= -y) else dark
        return mid

    return shaped(size, ink)


def block(light: str, mid: str, dark: str, rim: str) -> Art:
    """A wall block of 16x16 pixels."""
    out = np.full((16, 16), ord(mid), np.uint8)
    for k, ink in ((0, rim), (1, light), (4, dark)):
        out[k, k : 16 - k] = out[k : 16 - k, k] = ord(ink)
        out[15 - k, k : 16 - k] = out[k : 16 - k, 15 - k] = ord({light: dark, dark: light}.get(ink, ink))
    return out


def chevrons(dx: int, dy: int) -> Art:
    """A boost plate of 24x24 pixels that points in the direction (dx, dy), each -1, 0 or 1."""

    def ink(x: int, y: int) -> str:
        if max(abs(x), abs(y)) > 21:
            return "7"
        along, across = x * dx + y * dy, abs(x * dy - y * dx)
        if dx and dy:
            along, across = along * 2 // 3, across * 2 // 3
        phase = (along + across + 40) % 14
        return "9" if phase < 4 else "0" if phase < 9 else "1"

    return shaped(24, ink)


def coin() -> Art:
    """A coin of 16x16 pixels with a transparent centre."""

    def ink(x: int, y: int) -> str:
        away = x * x + y * y
        if away > 132 or away < 18:
            return " "
        if away > 96:
            return "7"
        return "9" if x + y < -4 else "6"

    return shaped(16, ink)


JUMP = stripes("5", "4", 4)
