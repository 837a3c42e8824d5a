"""Whether a circuit can be driven: what its geometry alone tells."""

from collections.abc import Iterator

import numpy as np

from kartrl.circuits.block import MAX_COINS, SIDE, SIZE, TILE
from kartrl.circuits.field import Field, field_of
from kartrl.circuits.format import Circuit
from kartrl.circuits.line import Line, line_of
from kartrl.circuits.looks import KINDS
from kartrl.circuits.paint import TREE, Ground, Painter
from kartrl.circuits.surfaces import CODES, SURFACES, Effect

SHORTEST, LONGEST = 2000, 6500  # pixels of the centre line
MARGIN = 24  # pixels between the road and the map's border
GAP = 20  # pixels between different parts of the road
SHARPEST = 36  # radius of the centre line's sharpest bend, pixels
STRAIGHT = 48  # pixels before and behind the start line that must be straight
BEND = 0.2  # radians that count as straight
FREE = 30  # pixels of road without hazards, at the least


def faults_of_road(circuit: Circuit) -> list[str]:
    """What is wrong with the way of a circuit's road, a sentence each."""
    return list(_of_line(circuit, line_of(circuit)))


def faults(circuit: Circuit) -> list[str]:
    """What is wrong with a circuit, a sentence each; nothing where it can be driven."""
    line = line_of(circuit)
    found = list(_of_line(circuit, line))
    if found:
        return found
    field = field_of(circuit, line)
    found = list(_of_things(circuit, line, field))
    if found:
        return found
    painter = Painter(circuit, KINDS[circuit.kind], line, field)
    return [*(f"{what} does not fit on the road" for what in painter.left_out), *_of_ground(painter.ground(), line)]


def _of_line(circuit: Circuit, line: Line) -> Iterator[str]:
    if not SHORTEST <= line.length <= LONGEST:
        yield f"the lap is {line.length:.0f} pixels long, not {SHORTEST} to {LONGEST}"
    narrowest = KINDS[circuit.kind].narrowest
    k = int(np.argmin(line.width))
    if line.width[k] < narrowest:
        yield f"the road is too narrow {_near(line, k)}: {line.width[k]:.0f} pixels, and {circuit.kind} needs {narrowest:.0f}"
    room = np.minimum(line.xy, SIZE - line.xy).min(1) - line.width / 2
    k = int(np.argmin(room))
    if room[k] < MARGIN:
        yield f"the road leaves the map {_near(line, k)}: {MARGIN} pixels must lie between its edge and the map's border"
    if (pair := _touching(line)) is not None:
        yield f"the road comes within {GAP} pixels of itself {_near(line, pair[0])} and {_near(line, pair[1])}"
    turn = np.abs(line.turns())
    if circuit.corners == "round":
        k = int(np.argmax(turn))
        if turn[k] > 1 / SHARPEST:
            yield f"the turn is too sharp {_near(line, k)}: a radius of {1 / turn[k]:.0f} pixels, not {SHARPEST} or more"
    else:
        yield from _corners(circuit)
    reach = int(STRAIGHT / 4)
    (ax, ay), (bx, by) = line.ahead(-reach), line.ahead(reach)
    if abs(ax * by - ay * bx) > BEND or ax * bx + ay * by < 0:
        yield f"the road is not straight at point 0: the start line needs {STRAIGHT} straight pixels before and behind it"


def _corners(circuit: Circuit) -> Iterator[str]:
    points = circuit.points
    for i, ((ax, ay, width), (bx, by, _)) in enumerate(zip(points, points[1:] + points[:1], strict=True)):
        if (ax == bx) == (ay == by):  # both, or neither
            yield f"the road from point {i} to point {(i + 1) % len(points)} must go straight north, south, east or west"
        elif abs(ax - bx) + abs(ay - by) < width:
            yield f"points {i} and {(i + 1) % len(points)} are closer than the road is wide"
    for i in range(len(points)):
        (ax, ay, _), (bx, by, _), (cx, cy, _) = (points[(i + k) % len(points)] for k in (-1, 0, 1))
        if (bx - ax) * (cx - bx) + (by - ay) * (cy - by) < 0:
            yield f"the road turns back on itself at point {i}"


def _near(line: Line, sample: int) -> str:
    x, y = line.xy[sample]
    return f"near point {line.at[sample] % (int(line.at[-1]) + 1):.1f} ({x:.0f}, {y:.0f})"


def _touching(line: Line) -> tuple[int, int] | None:
    """Two samples whose roads come too close, though the way between them is longer than a bend."""
    xy, width = line.xy[::2], line.width[::2]
    count = len(xy)
    step = line.length / count
    need = (width[:, None] + width[None, :]) / 2 + GAP
    x, y = xy[:, 0], xy[:, 1]
    away = np.sqrt((x[:, None] - x[None, :]) ** 2 + (y[:, None] - y[None, :]) ** 2)
    apart = np.abs(np.arange(count)[:, None] - np.arange(count)[None, :])
    apart = np.minimum(apart, count - apart) * step
    short = np.where(apart > 1.6 * need, away - need, np.inf)
    k = int(np.argmin(short))
    return (k // count * 2, k % count * 2) if short.flat[k] < 0 else None


def _of_things(circuit: Circuit, line: Line, field: Field) -> Iterator[str]:
    kind = KINDS[circuit.kind]
    road = field.edge < 4
    if circuit.trees and kind.tree is None:
        yield f"{circuit.kind} has no trees"
    for x, y in circuit.trees:
        column, row, size = x // TILE, y // TILE, TREE // TILE
        if max(column, row) > SIDE - size:
            yield f"the tree at {x}, {y} leaves the map"
        elif road[row : row + size, column : column + size].any():
            yield f"the tree at {x}, {y} stands on the road"
    for x0, y0, x1, y1 in circuit.walls:
        if not (x0 <= x1 and y0 <= y1):
            yield f"the wall {x0}, {y0}, {x1}, {y1} must go from its upper left to its lower right"
        elif road[y0 // 16 * 2 : y1 // 16 * 2 + 2, x0 // 16 * 2 : x1 // 16 * 2 + 2].any():
            yield f"the wall {x0}, {y0}, {x1}, {y1} stands on the road"
    for patch in circuit.patches:
        if patch.ground not in kind.pools:
            yield f"{circuit.kind} has no patches of {patch.ground}; there are: {', '.join(kind.pools) or 'none'}"
    coins = sum(row.count for row in circuit.coins)
    if coins > MAX_COINS:
        yield f"there are {coins} coins; at most {MAX_COINS} are allowed"


def _of_ground(ground: Ground, line: Line) -> Iterator[str]:
    """Hazards and walls on the centre line's way: enough road must stay free everywhere, and the start be clear."""
    bad = np.isin(ground.surface, [CODES[s.name] for s in SURFACES if s.effect in (Effect.WALL, Effect.FALL, Effect.LAVA, Effect.WATER)])
    for k in range(0, len(line.xy), 2):
        ux, uy = line.ahead(k)
        half = line.width[k] / 2
        across = np.arange(-half + 2, half - 1, 2.0)
        rows, columns = ((line.xy[k, 1] + across * ux) / TILE).astype(int), ((line.xy[k, 0] - across * uy) / TILE).astype(int)
        blocked = np.flatnonzero(np.concatenate([[True], bad[rows, columns], [True]]))
        if (np.diff(blocked).max() - 1) * 2 < FREE:
            yield f"less than {FREE} pixels of the road are free {_near(line, k)}"
            return
