"""Pictures to the console's tiles and palettes."""

import struct

import numpy as np


def cut(picture: np.ndarray) -> np.ndarray:
    """Pixels [8 h, 8 w] -> tiles [h * w, 64], row by row."""
    h, w = picture.shape[0] // 8, picture.shape[1] // 8
    return picture.reshape(h, 8, w, 8).swapaxes(1, 2).reshape(h * w, 64)


def packed(tile: np.ndarray) -> bytes:
    """A tile of 64 pixels below 16 as the console's four bit planes, 32 bytes."""
    rows = [[int(v) for v in tile[8 * y : 8 * y + 8]] for y in range(8)]

    def plane(row: list[int], bit: int) -> int:
        return sum((v >> bit & 1) << (7 - x) for x, v in enumerate(row))

    low = bytes(plane(row, bit) for row in rows for bit in (0, 1))
    return low + bytes(plane(row, bit) for row in rows for bit in (2, 3))


def palette(colours: dict[int, tuple[int, int, int]], size: int = 256) -> bytes:
    """Colours of five bits a channel as 16-bit words."""
    words = [0] * size
    for index, (red, green, blue) in colours.items():
        words[index] = red | green << 5 | blue << 10
    return struct.pack(f"<{size}H", *words)


def reduce(
    tiles: np.ndarray, colours: dict[int, tuple[int, int, int]], first: np.ndarray, limit: int = 256
) -> tuple[np.ndarray, np.ndarray]:
    """Choose at most `limit` of the tiles, and the nearest chosen one for each.

    The ground of a circuit has a few thousand different tiles along its curved edges, Mode 7 has 256: so the chosen
    ones are medoids under the squared distance of colours. All distances are sums of integers, exact in float64.

    Args:
        tiles: uint8 [n, 64], palette indices.
        first: uint8 [64], the tile that gets number 0 (it also covers everything outside the map).

    Returns:
        chosen uint8 [limit, 64] and numbers uint8 [n].
    """
    unique, where, count = np.unique(tiles, axis=0, return_inverse=True, return_counts=True)
    where = where.reshape(-1)
    table = np.zeros((256, 3))
    for index, colour in colours.items():
        table[index] = colour
    points = table[unique].reshape(len(unique), -1)
    size = (points * points).sum(1)
    away = size[:, None] + size[None, :] - 2 * (points @ points.T)
    weight = np.minimum(count, 16).astype(float)
    centres = [int(np.argmax(count))]
    nearest = away[centres[0]].copy()
    while len(centres) < min(limit - 1, len(unique)):
        pick = int(np.argmax(nearest * weight))
        centres.append(pick)
        nearest = np.minimum(nearest, away[pick])
    for _ in range(12):
        owner = np.argmin(away[centres], axis=0)
        moved = []
        for k, centre in enumerate(centres):
            members = np.nonzero(owner == k)[0]
            cost = (away[np.ix_(members, members)] * weight[members]).sum(1) if len(members) else np.zeros(0)
            moved.append(int(members[np.argmin(cost)]) if len(members) else centre)
        if moved == centres:
            break
        centres = moved
    owner = np.argmin(away[centres], axis=0)
    chosen = np.zeros((limit, 64), np.uint8)
    chosen[0] = first
    chosen[1 : len(centres) + 1] = unique[centres]
    return chosen, (owner + 1).astype(np.uint8)[where]
