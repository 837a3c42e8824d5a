"""Circuits: from a TOML file of control points to gates, cells, and a picture of the ground.

Only +, -, *, / and sqrt on float64 decide what reaches the ROM, so every machine builds the same bytes.
"""

import itertools
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import palette as pal

SIZE = 1024  # map, pixels a side
CELL = 8  # cell of the surface and section table, pixels a side
CELLS = SIZE // CELL
STEP = 4.0  # spacing of the samples along the centre line, pixels
REACH = 120  # how far from the centre line distances are computed, pixels
ROAD, GRASS, WALL = 0, 1, 2  # surface codes in a cell's top two bits
KERB = 7.0  # width of the kerb outside the asphalt, pixels
KERB_TURN = 0.0045  # kerbs stand where the line turns by more than this, radians a pixel
MINI = 112  # small map, pixels a side: 7/64 of the map
MINI_ROAD, MINI_EDGE, MINI_GRASS, MINI_WALL, MINI_WHITE, MINI_DARK = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Track:
    """One circuit, ready for the ROM."""

    name: str
    title: str
    sections: int
    length: int  # of the centre line, pixels
    gates: list[tuple[int, int, int]]  # x, y, angle (256 a turn, north 0, east 64), the middle of each section
    cells: np.ndarray  # uint8 [128, 128]: section | surface << 6
    picture: np.ndarray  # uint8 [1024, 1024]: palette indices
    mini: np.ndarray  # uint8 [112, 112]: MINI_* codes


def _spline(points: list[list[float]]) -> tuple[np.ndarray, float]:
    """Closed Catmull-Rom curve through (x, y, width): samples [n, 3] about STEP apart, and its length."""
    fine: list[tuple[float, float, float]] = []
    count = len(points)
    for i in range(count):
        p0, p1, p2, p3 = (points[(i + k) % count] for k in (-1, 0, 1, 2))
        for k in range(64):
            t = k / 64
            fine.append(
                tuple(  # type: ignore[arg-type]
                    0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t * t * t)
                    for a, b, c, d in zip(p0, p1, p2, p3, strict=True)
                )
            )
    fine.append(fine[0])
    at = [0.0]
    for a, b in itertools.pairwise(fine):
        at.append(at[-1] + math.sqrt((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2))
    length = at[-1]
    samples = round(length / STEP)
    out, j = np.zeros((samples, 3)), 0
    for i in range(samples):
        s = length * i / samples
        while at[j + 1] <= s:
            j += 1
        f = (s - at[j]) / (at[j + 1] - at[j])
        out[i] = [fine[j][k] + f * (fine[j + 1][k] - fine[j][k]) for k in range(3)]
    return out, length


def _nearest(line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance beyond the road's edge (float64) and nearest sample (int64) of every pixel, both [1024, 1024].

    Pixels further than REACH from the line keep 1e9 and -1.
    """
    best = np.full((SIZE, SIZE), 1e9)
    index = np.full((SIZE, SIZE), -1)
    for i, (x, y, width) in enumerate(line):
        x2, y2, _ = line[(i + 1) % len(line)]
        left, right = max(0, int(x) - REACH), min(SIZE, int(x) + REACH)
        top, bottom = max(0, int(y) - REACH), min(SIZE, int(y) + REACH)
        px = np.arange(left, right)[None, :] + 0.5 - x
        py = np.arange(top, bottom)[:, None] + 0.5 - y
        ux, uy = x2 - x, y2 - y
        t = np.clip((px * ux + py * uy) / (ux * ux + uy * uy), 0.0, 1.0)
        dx, dy = px - t * ux, py - t * uy
        edge = np.sqrt(dx * dx + dy * dy) - width / 2
        box = (slice(top, bottom), slice(left, right))
        closer = edge < best[box]
        best[box] = np.where(closer, edge, best[box])
        index[box] = np.where(closer, i, index[box])
    return best, index


def _sections(line: np.ndarray, sections: int) -> np.ndarray:
    """Section of the sample nearest to each cell's centre, uint8 [128, 128]."""
    centre = np.arange(CELLS) * CELL + CELL / 2
    best = np.full((CELLS, CELLS), 1e9)
    out = np.zeros((CELLS, CELLS), np.uint8)
    for i, (x, y, _) in enumerate(line):
        away = (centre[None, :] - x) ** 2 + (centre[:, None] - y) ** 2
        closer = away < best
        best = np.where(closer, away, best)
        out[closer] = i * sections // len(line)
    return out


def _turns(line: np.ndarray) -> np.ndarray:
    """How sharply the line turns at each sample, radians a pixel (small-angle sine), smoothed, float64 [n]."""
    ahead, behind = np.roll(line, -4, 0), np.roll(line, 4, 0)
    u, v = line[:, :2] - behind[:, :2], ahead[:, :2] - line[:, :2]
    cross = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    lengths = np.sqrt((u * u).sum(1)) * np.sqrt((v * v).sum(1))
    turn = np.abs(cross / lengths) / (4 * STEP)
    out: np.ndarray = np.maximum.reduce([np.roll(turn, k) for k in range(-6, 7)])
    return out


def _blocks(data: dict, edge: np.ndarray) -> np.ndarray:
    """Cells taken by walls: the map's border, the file's rows of blocks; bool [128, 128]."""
    wall = np.zeros((CELLS, CELLS), bool)
    wall[:2] = wall[-2:] = wall[:, :2] = wall[:, -2:] = True
    for x0, y0, x1, y1 in data.get("walls", []):
        wall[y0 // 16 * 2 : y1 // 16 * 2 + 2, x0 // 16 * 2 : x1 // 16 * 2 + 2] = True
    if (edge.reshape(CELLS, CELL, CELLS, CELL).min((1, 3))[wall] < 2).any():
        raise ValueError("a wall stands on the road")
    return wall


def _stamp(picture: np.ndarray, art: np.ndarray, x: int, y: int) -> None:
    """Draw art (uint8, 0 = see-through) with its corner at (x, y)."""
    box = picture[y : y + art.shape[0], x : x + art.shape[1]]
    box[art > 0] = art[art > 0]


def _paint(edge: np.ndarray, index: np.ndarray, line: np.ndarray, wall: np.ndarray, trees: list) -> np.ndarray:
    """The ground as palette indices, uint8 [1024, 1024]."""
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    picture = np.where(((x >> 5) + (y >> 5)) & 1, pal.tiled(pal.GRASS_A), pal.tiled(pal.GRASS_B)).astype(np.uint8)
    turn = np.concatenate([_turns(line), [0.0]])[index] > KERB_TURN
    ahead = np.roll(line, -1, 0) - line
    steep = np.concatenate([np.abs(ahead[:, 1]) > np.abs(ahead[:, 0]), [False]])[index]
    stripe = np.where(steep, (y >> 2) & 1, (x >> 2) & 1)
    kerb = np.where(stripe, pal.KERB_RED, pal.KERB_WHITE)
    picture[edge < KERB + 5] = pal.VERGE
    picture[(edge < KERB) & turn] = kerb[(edge < KERB) & turn]
    picture[edge < 2] = pal.LINE
    asphalt = pal.tiled(pal.ASPHALT)
    picture[edge < -1] = asphalt[edge < -1]
    for row, column in zip(*np.nonzero(wall[::2, ::2]), strict=True):
        picture[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16] = pal.BLOCK
    for tx, ty in trees:
        _stamp(picture, pal.TREE, tx, ty)
    return picture


def _start(picture: np.ndarray, edge: np.ndarray, line: np.ndarray) -> None:
    """Chequered line across the road at sample 0, eight pixels deep, squares of four."""
    x0, y0, width = line[0]
    ux, uy = line[1][0] - x0, line[1][1] - y0
    norm = math.sqrt(ux * ux + uy * uy)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    along = ((x + 0.5 - x0) * ux + (y + 0.5 - y0) * uy) / norm
    across = ((x + 0.5 - x0) * uy - (y + 0.5 - y0) * ux) / norm
    on = (along >= -8) & (along < 0) & (np.abs(across) < width / 2) & (edge < -1)
    square = (np.floor(along / 4).astype(int) + np.floor(across / 4).astype(int)) & 1
    picture[on] = np.where(square, pal.LINE, pal.BLACK)[on]


def _mini(edge: np.ndarray, wall: np.ndarray, line: np.ndarray) -> np.ndarray:
    """The small map, uint8 [112, 112] of MINI_* codes."""
    at = (np.arange(MINI) * 2 + 1) * 64 // 14
    small = edge[np.ix_(at, at)]
    out = np.full((MINI, MINI), MINI_GRASS, np.uint8)
    out[wall[np.ix_(at // CELL, at // CELL)]] = MINI_WALL
    out[small < 12] = MINI_EDGE
    out[small < 0] = MINI_ROAD
    x, y = int(line[0][0]) * 7 // 64, int(line[0][1]) * 7 // 64
    steep = abs(line[1][1] - line[0][1]) > abs(line[1][0] - line[0][0])
    for k in range(-5, 6):
        for deep in (0, 1):
            row, column = (y + deep, x + k) if steep else (y + k, x + deep)
            if small[row, column] < 0:
                out[row, column] = MINI_WHITE if (k + deep) & 1 else MINI_DARK
    return out


def load(path: Path) -> Track:
    """Read a circuit's file and compute all that the ROM needs of it."""
    data = tomllib.loads(path.read_text())
    points = [[float(v) for v in point] for point in data["points"]]
    line, length = _spline(points)
    sections = data["sections"]
    edge, index = _nearest(line)
    wall = _blocks(data, edge)
    cells = _sections(line, sections)
    centre = edge[CELL // 2 :: CELL, CELL // 2 :: CELL]
    trees = []
    for tx, ty in data.get("trees", []):
        tx, ty = tx // CELL * CELL, ty // CELL * CELL
        if edge[ty : ty + 24, tx : tx + 24].min() < KERB + 6:
            raise ValueError(f"{path.name}: the tree at {tx}, {ty} stands on the road")
        trees.append((tx, ty))
        wall[ty // CELL : ty // CELL + 3, tx // CELL : tx // CELL + 3] = True
    blocks = _blocks(data, edge)
    surface = np.where(wall, WALL, np.where(centre < KERB - 2, ROAD, GRASS)).astype(np.uint8)
    picture = _paint(edge, index, line, blocks, trees)
    _start(picture, edge, line)
    gates = []
    for i in range(sections):
        k = (2 * i + 1) * len(line) // (2 * sections)
        dx, dy = (line[(k + 3) % len(line)] - line[k - 3])[:2]
        angle = round(math.atan2(dx, -dy) * 128 / math.pi) & 255
        gates.append((round(line[k][0]), round(line[k][1]), angle))
    return Track(
        path.stem,
        data["title"],
        sections,
        round(length),
        gates,
        (cells | surface << 6).astype(np.uint8),
        picture,
        _mini(edge, blocks, line),
    )
