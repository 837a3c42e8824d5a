"""Reduces thousands of different tiles to the 256 of Mode 7 by k-medoids."""

import numpy as np
import numpy.typing as npt

from kartrl.kart.block import SIDE, SIZE, TILE

Bytes = npt.NDArray[np.uint8]
LIMIT = 255  # tiles to choose; number 0 is for the outside of the map
ROUNDS = 5
COMMON = 16  # maximum weight of a tile by its count


def split_tiles(image: Bytes) -> Bytes:
    """Split an image [8 h, 8 w] into tiles [h * w, 64], row by row."""
    h, w = image.shape[0] // TILE, image.shape[1] // TILE
    return image.reshape(h, TILE, w, TILE).swapaxes(1, 2).reshape(h * w, TILE * TILE)


def reduce(image: Bytes, surface: Bytes, colours: npt.NDArray[np.uint8]) -> tuple[Bytes, Bytes, Bytes]:
    """Choose tiles, and for each cell the nearest chosen tile with the same surface.

    The tiles are medoids under the squared distance of colours. Colours have five bits, so all sums are integers below
    2**24: exact in float32 in any order of addition, and the same on every machine.

    Args:
        image: uint8 [1024, 1024] colour numbers.
        surface: uint8 [128, 128] surface code of each cell.
        colours: uint8 [k, 3], red, green, blue, 0 to 31.

    Returns:
        tilemap uint8 [128, 128], tiles uint8 [256, 8, 8] and surfaces uint8 [256]; number 0 is left to the caller.
    """
    assert image.shape == (SIZE, SIZE)
    assert surface.shape == (SIDE, SIDE)
    keyed = np.concatenate([surface.reshape(-1, 1), split_tiles(image)], axis=1)
    rows = [row.tobytes() for row in keyed]  # np.unique(axis=0) takes many times as long
    number = {row: index for index, row in enumerate(sorted(set(rows)))}
    where = np.array([number[row] for row in rows])
    unique = np.frombuffer(b"".join(number), np.uint8).reshape(-1, keyed.shape[1])
    count = np.bincount(where)
    code, pixels = unique[:, 0], unique[:, 1:]
    points = colours.astype(np.float32)[pixels].reshape(len(unique), -1)
    weight = np.minimum(count, COMMON).astype(np.float32)
    centres = _spread(points, code, weight, count)
    for _ in range(ROUNDS):
        moved = _settled(points, code, weight, centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    owner = _owners(points, code, centres)
    tiles, surfaces = np.zeros((LIMIT + 1, TILE * TILE), np.uint8), np.zeros(LIMIT + 1, np.uint8)
    tiles[1 : len(centres) + 1] = pixels[centres]
    surfaces[1 : len(centres) + 1] = code[centres]
    tilemap = (owner + 1).astype(np.uint8)[where].reshape(SIDE, SIDE)
    return tilemap, tiles.reshape(-1, TILE, TILE), surfaces


def _spread(
    points: npt.NDArray[np.float32], code: Bytes, weight: npt.NDArray[np.float32], count: npt.NDArray[np.int64]
) -> npt.NDArray:
    """Initial centres by farthest-point sampling, starting with one per surface."""
    size = (points * points).sum(1)
    nearest = np.full(len(points), np.inf, np.float32)
    centres: list[int] = []

    def add(pick: int) -> None:
        centres.append(pick)
        away = size + size[pick] - 2 * (points @ points[pick])
        np.copyto(nearest, away, where=(code == code[pick]) & (away < nearest))

    for surface in np.unique(code):
        members = np.flatnonzero(code == surface)
        add(int(members[np.argmax(count[members])]))
    while len(centres) < min(LIMIT, len(points)):
        add(int(np.argmax(nearest * weight)))
    return np.array(centres)


def _owners(points: npt.NDArray[np.float32], code: Bytes, centres: npt.NDArray) -> npt.NDArray[np.int64]:
    """Index of the nearest centre with the point's surface, for each point."""
    chosen = points[centres]
    away = (chosen * chosen).sum(1)[None, :] - 2 * (points @ chosen.T)
    away[code[:, None] != code[centres][None, :]] = np.inf
    return np.argmin(away, axis=1)


def _settled(
    points: npt.NDArray[np.float32], code: Bytes, weight: npt.NDArray[np.float32], centres: npt.NDArray
) -> npt.NDArray:
    """Move each centre to the medoid of its points."""
    owner = _owners(points, code, centres)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(centres) + 1))
    moved = centres.copy()
    for k in range(len(centres)):
        members = order[bounds[k] : bounds[k + 1]]
        if len(members) > 2:
            mine = points[members]
            size = (mine * mine).sum(1)
            away = size[:, None] + size[None, :] - 2 * (mine @ mine.T)
            moved[k] = members[np.argmin((away.astype(np.float64) * weight[members][None, :]).sum(1))]
    return moved
