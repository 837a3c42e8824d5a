"""Distance field: distance and direction of each cell of the map from the road's edge."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kartrl.kart.block import SIDE, TILE
from kartrl.kart.circuits.format import Circuit
from kartrl.kart.circuits.line import STEP, Floats, Line

ANGLES = 64  # quantized directions of edges
UNIT = 512  # units per pixel of `Field.drawn`
_COARSE = 4  # stride of the first, coarse search over the samples
_ROSE = np.array(
    [
        (round(256 * math.cos(k * math.tau / ANGLES)), round(256 * math.sin(k * math.tau / ANGLES)))
        for k in range(ANGLES)
    ]
)


class Field(NamedTuple):
    """Values at the centres of cells of 8x8 pixels, each [128, 128]."""

    edge: Floats  # pixels beyond the road's edge; negative on the road
    angle: npt.NDArray[np.int64]  # 0 to ANGLES - 1: direction away from the road
    sample: npt.NDArray[np.int64]  # nearest sample of the line
    right: npt.NDArray[np.bool_]  # whether the cell lies right of the line

    def drawn(self) -> npt.NDArray[np.int32]:
        """The distance of every pixel in 1/UNIT pixel, int32 [1024, 1024]: linear inside a cell.

        Quantized to half pixels at the centres, so that similar edges share some of Mode 7's 256 tiles.
        """
        middle = np.floor(np.clip(self.edge, -500, 500) * 2 + 0.5).astype(np.int32) * (UNIT // 2)
        inside = 2 * np.arange(TILE, dtype=np.int32) - (TILE - 1)  # half pixels from the cell's centre
        rose = _ROSE.astype(np.int32)[self.angle]
        cells = middle[:, None, :, None] + rose[:, None, :, None, 1] * inside[None, :, None, None]
        return (cells + rose[:, None, :, None, 0] * inside[None, None, None, :]).reshape(SIDE * TILE, SIDE * TILE)


def centres(count: int, size: int) -> tuple[Floats, Floats]:
    """x [1, count] and y [count, 1] of the centres of cells of `size` pixels."""
    middle = np.arange(count, dtype=np.float64) * size + size / 2
    return middle[None, :], middle[:, None]


def nearest(line: Line, count: int, size: int) -> npt.NDArray[np.int64]:
    """The sample nearest to each cell's centre, int64 [count, count]."""
    x, y = (np.broadcast_to(part, (count, count)).reshape(-1) for part in centres(count, size))
    few = line.xy[::_COARSE]
    away = np.full(count * count, np.inf)
    found = np.zeros(count * count, np.int64)
    for k, (sx, sy) in enumerate(few):
        d = (x - sx) * (x - sx) + (y - sy) * (y - sy)
        closer = d < away
        np.copyto(away, d, where=closer)
        found[closer] = k * _COARSE
    start = found.copy()
    for step in range(-_COARSE, _COARSE + 1):
        at = (start + step) % len(line.xy)
        d = (x - line.xy[at, 0]) ** 2 + (y - line.xy[at, 1]) ** 2
        closer = d < away
        away, found = np.where(closer, d, away), np.where(closer, at, found)
    return found.reshape(count, count)


def field_of(circuit: Circuit, line: Line) -> Field:
    """The distance field of a circuit's road."""
    sample = nearest(line, SIDE, TILE)
    x, y = centres(SIDE, TILE)
    if circuit.corners == "right":
        edge, gx, gy = _corridors(circuit, x, y)
    else:
        edge, gx, gy = _bands(line, sample, x, y)
    ahead = np.roll(line.xy, -1, 0) - np.roll(line.xy, 1, 0)
    ux, uy = ahead[sample, 0], ahead[sample, 1]
    right = ux * (y - line.xy[sample, 1]) - uy * (x - line.xy[sample, 0]) > 0
    best = np.full(edge.shape, -np.inf)
    angle = np.zeros(edge.shape, np.int64)
    for k, (rx, ry) in enumerate(_ROSE.tolist()):
        along = gx * rx + gy * ry
        angle = np.where(along > best, k, angle)
        best = np.maximum(along, best)
    return Field(edge, angle, sample, right)


def _bands(line: Line, sample: npt.NDArray[np.int64], x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Distance from a band around the line, of the road's width, and the direction away from it, x and y."""
    count = len(line.xy)
    best, gx, gy = (np.full(sample.shape, fill) for fill in (np.inf, 1.0, 0.0))
    for step in range(-4, 4):
        k = (sample + step) % count
        n = (k + 1) % count
        ax, ay = line.xy[k, 0], line.xy[k, 1]
        ux, uy = line.xy[n, 0] - ax, line.xy[n, 1] - ay
        t = np.clip(((x - ax) * ux + (y - ay) * uy) / (ux * ux + uy * uy + 1e-9), 0.0, 1.0)
        dx, dy = x - ax - t * ux, y - ay - t * uy
        away = np.sqrt(dx * dx + dy * dy)
        edge = away - (line.width[k] + t * (line.width[n] - line.width[k])) / 2
        closer = edge < best
        safe = np.where(away > STEP / 64, away, 1.0)
        best = np.where(closer, edge, best)
        gx, gy = np.where(closer, dx / safe, gx), np.where(closer, dy / safe, gy)
    return best, gx, gy


def _corridors(circuit: Circuit, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """The same for straight corridors, extended by half a width at both ends, which makes square corners."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    best, gx, gy = (np.full(shape, fill) for fill in (np.inf, 1.0, 0.0))
    for (ax, ay, one), (bx, by, other) in zip(circuit.points, circuit.points[1:] + circuit.points[:1], strict=True):
        size = math.sqrt((bx - ax) ** 2 + (by - ay) ** 2)
        ux, uy, half = (bx - ax) / size, (by - ay) / size, min(one, other) / 2
        along = (x - ax) * ux + (y - ay) * uy - size / 2
        across = (x - ax) * -uy + (y - ay) * ux
        far, wide = np.abs(along) - size / 2 - half, np.abs(across) - half
        edge = np.maximum(far, wide)
        sign_along, sign_across = np.where(along < 0, -1.0, 1.0), np.where(across < 0, -1.0, 1.0)
        out_x = np.where(far > wide, sign_along * ux, sign_across * -uy)
        out_y = np.where(far > wide, sign_along * uy, sign_across * ux)
        closer = edge < best
        best, gx, gy = np.where(closer, edge, best), np.where(closer, out_x, gx), np.where(closer, out_y, gy)
    return best, gx, gy
