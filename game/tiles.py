"""Converts images to the console's tiles and palettes."""

import struct

import numpy as np


def pack(tile: np.ndarray) -> bytes:
    """Pack a tile of 64 pixels below 16 into the console's four bit planes, 32 bytes."""
    rows = [[int(v) for v in tile[8 * y : 8 * y + 8]] for y in range(8)]

    def plane(row: list[int], bit: int) -> int:
        return sum((v >> bit & 1) << (7 - x) for x, v in enumerate(row))

    low = bytes(plane(row, bit) for row in rows for bit in (0, 1))
    return low + bytes(plane(row, bit) for row in rows for bit in (2, 3))


def palette(colours: dict[int, tuple[int, int, int]], size: int = 256) -> bytes:
    """Pack colours of five bits per channel into 16-bit words."""
    words = [0] * size
    for index, (red, green, blue) in colours.items():
        words[index] = red | green << 5 | blue << 10
    return struct.pack(f"<{size}H", *words)
