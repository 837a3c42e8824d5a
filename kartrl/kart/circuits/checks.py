"""Checks whether a circuit can be driven, by its geometry alone."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from kartrl.kart.block import MAX_COINS, SIDE, SIZE, TILE
from kartrl.kart.circuits.appearance.kinds import KINDS
from kartrl.kart.circuits.appearance.paint import TREE, Ground, Painter
from kartrl.kart.circuits.appearance.surfaces import CODES, SURFACES, Effect
from kartrl.kart.circuits.field import Field, field_of
from kartrl.kart.circuits.format import Circuit, Patch, Spot, Wall
from kartrl.kart.circuits.line import STEP, Line, line_of

SHORTEST, LONGEST = 2000, 6500  # pixels of the centre line
MARGIN = 24  # minimum pixels between the road and the map's border
GAP = 20  # minimum pixels between different parts of the road
SHARPEST = 36  # minimum radius of the centre line, pixels
STRAIGHT = 48  # pixels before and after the start line that must be straight
BEND = 0.2  # sine of the largest turn that counts as straight
IN_LINE = 70  # pixels: control points at this distance on either side keep the curve straightest at the start line
RUN_UP, FLIGHT = 40, 72  # pixels of straight road required before and after a jump
FREE = 30  # minimum width of road without hazards, pixels
Cells = npt.NDArray[np.bool_]


def find_road_faults(circuit: Circuit) -> list[str]:
    """Faults of the centre line, one sentence each."""
    line = line_of(circuit)
    return [*_check_line(circuit, line), *_check_start(line)]


def find_faults(circuit: Circuit) -> list[str]:
    """All faults of a circuit, one sentence each; empty if it can be driven."""
    line = line_of(circuit)
    field = field_of(circuit, line)
    road = list(_check_line(circuit, line))
    sound, found = _check_objects(circuit, field)
    painter = Painter(sound, KINDS[circuit.kind], line, field)
    found = [*road, *_check_start(line), *_check_jumps(circuit, line), *found, *painter.left_out]
    return found if road else [*found, *_check_ground(painter.ground(), line)]  # of no use for a faulty road


def _check_line(circuit: Circuit, line: Line) -> Iterator[str]:
    if not SHORTEST <= line.length <= LONGEST:
        yield f"the lap is {line.length:.0f} pixels long: it must be {SHORTEST} to {LONGEST}"
    narrowest = KINDS[circuit.kind].narrowest
    k = int(np.argmin(line.width))
    if line.width[k] < narrowest:
        width = f"{line.width[k]:.0f} pixels, {circuit.kind} needs {narrowest:.0f}"
        yield f"the road is too narrow {_locate(line, k)}: {width}"
    room = np.minimum(line.xy, SIZE - line.xy).min(1) - line.width / 2
    k = int(np.argmin(room))
    if room[k] < MARGIN:
        yield f"the road leaves the map {_locate(line, k)}: keep its edge {MARGIN} pixels from the map's border"
    if (pair := _find_contact(line)) is not None:
        yield f"the road comes within {GAP} pixels of itself {_locate(line, pair[0])} and {_locate(line, pair[1])}"
    turn = np.abs(line.turns())
    if circuit.corners == "round":
        k = int(np.argmax(turn))
        if turn[k] > 1 / SHARPEST:
            radius = f"{1 / turn[k]:.0f} pixels, the minimum is {SHARPEST}"
            yield f"the turn is too sharp {_locate(line, k)}: its radius is {radius}"
    else:
        yield from _check_corners(circuit)


def _check_start(line: Line) -> Iterator[str]:
    reach = int(STRAIGHT / STEP)
    if _is_bend(before := line.ahead(-reach), after := line.ahead(reach)):
        bend = math.degrees(math.acos(float(np.clip(np.dot(before, after), -1, 1))))
        yield (
            f"the road is not straight at point 0: it turns by {bend:.0f} degrees within {STRAIGHT} pixels, "
            f"at most {math.degrees(math.asin(BEND)):.0f} are allowed; put points in line with it, "
            f"{IN_LINE} pixels behind and {IN_LINE} ahead"
        )


def _is_bend(before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether the turn from one unit vector to the other is too large for a straight."""
    (ax, ay), (bx, by) = before, after
    return abs(ax * by - ay * bx) > BEND or ax * bx + ay * by < 0


def _check_jumps(circuit: Circuit, line: Line) -> Iterator[str]:
    """A kart must approach a jump on a straight and land on the road."""
    step = line.length / len(line.xy)
    for jump in circuit.jumps:
        k = line.nearest_sample(jump.at)
        u = line.ahead(k, 1)
        way = line.xy[np.arange(k, k + 2 * int(FLIGHT / STEP)) % len(line.xy)]
        flown = np.linspace(0, FLIGHT, 10)[:, None] * u + line.xy[k]
        off = np.sqrt(((flown[:, None] - way) ** 2).sum(2)).min(1) - line.width[k] / 2 + TILE  # clear of the edge
        # a bend leaves some tolerance, a corner none
        landing = line.ahead(k + int(FLIGHT / STEP)) if circuit.corners == "right" else u
        if min(k, len(line.xy) - k) * step < STRAIGHT:
            yield f"the jump at {jump.at:g} is too close to the start line: keep {STRAIGHT} pixels between them"
        elif _is_bend(line.ahead(k - int(RUN_UP / STEP)), u) or _is_bend(u, landing) or (off > 0).any():
            straight = f"{RUN_UP} pixels before and {FLIGHT} after it"
            yield f"the jump at {jump.at:g} is not on a straight: the road must be straight {straight}"


def _check_corners(circuit: Circuit) -> Iterator[str]:
    points = circuit.points
    square = []
    for i, ((ax, ay, width), (bx, by, _)) in enumerate(zip(points, points[1:] + points[:1], strict=True)):
        square.append((ax == bx) != (ay == by))
        to = (i + 1) % len(points)
        if not square[i]:
            piece = f"from point {i} ({ax:g}, {ay:g}) to point {to} ({bx:g}, {by:g})"
            yield f"the road {piece} must go straight north, south, east or west"
        elif abs(ax - bx) + abs(ay - by) < width:
            yield f"points {i} and {to} are closer than the road's width"
    for i in range(len(points)):
        (ax, ay, _), (bx, by, _), (cx, cy, _) = (points[(i + k) % len(points)] for k in (-1, 0, 1))
        if square[i - 1] and square[i] and (bx - ax) * (cx - bx) + (by - ay) * (cy - by) < 0:
            yield f"the road turns back on itself at point {i}"


def _locate(line: Line, sample: int) -> str:
    x, y = line.xy[sample]
    return f"near point {line.at[sample] % (int(line.at[-1]) + 1):.1f} ({x:.0f}, {y:.0f})"


def _find_contact(line: Line) -> tuple[int, int] | None:
    """Two samples whose roads come too close although they are further apart along the line than a bend."""
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


def _check_objects(circuit: Circuit, field: Field) -> tuple[Circuit, list[str]]:
    """The circuit without misplaced trees, walls and patches, and the faults of those and of the coins."""
    road = field.edge < 4
    kept: dict[str, tuple] = {}
    wrong: list[str] = []

    def keep(key: str, fault_of: Callable[..., str]) -> None:
        judged = [(thing, fault_of(thing, road, circuit.kind)) for thing in getattr(circuit, key)]
        kept[key] = tuple(thing for thing, fault in judged if not fault)
        wrong.extend(dict.fromkeys(fault for _, fault in judged if fault))

    keep("trees", _check_tree)
    keep("walls", _check_wall)
    keep("patches", _check_patch)
    if (coins := sum(row.count for row in circuit.coins)) > MAX_COINS:
        wrong.append(f"there are {coins} coins; at most {MAX_COINS} are allowed")
    return circuit.model_copy(update=kept), wrong


def _check_tree(tree: Spot, road: Cells, kind: str) -> str:
    if KINDS[kind].tree is None:
        return f"{kind} has no trees"
    column, row, size = tree[0] // TILE, tree[1] // TILE, TREE // TILE
    if max(column, row) > SIDE - size:
        return f"the tree at {tree[0]}, {tree[1]} leaves the map"
    covers = (column, row, column + size, row + size)
    return f"the tree at {tree[0]}, {tree[1]} stands on the road{_extent(covers)}" if _covers_road(road, covers) else ""


def _check_wall(wall: Wall, road: Cells, _: str) -> str:
    x0, y0, x1, y1 = wall
    if not (x0 <= x1 and y0 <= y1):
        return f"the wall {x0}, {y0}, {x1}, {y1} must go from its upper left to its lower right"
    covers = (x0 // 16 * 2, y0 // 16 * 2, x1 // 16 * 2 + 2, y1 // 16 * 2 + 2)
    return f"the wall {x0}, {y0}, {x1}, {y1} stands on the road{_extent(covers)}" if _covers_road(road, covers) else ""


def _check_patch(patch: Patch, _: Cells, kind: str) -> str:
    pools = KINDS[kind].pools
    return (
        ""
        if patch.ground in pools
        else f"{kind} has no patches of {patch.ground}; there are: {', '.join(pools) or 'none'}"
    )


def _covers_road(road: Cells, covers: tuple[int, int, int, int]) -> bool:
    left, top, right, bottom = covers
    return bool(road[top:bottom, left:right].any())


def _extent(covers: tuple[int, int, int, int]) -> str:
    left, top, right, bottom = (TILE * cell for cell in covers)
    return f": it covers {left}, {top} to {right - 1}, {bottom - 1}"


def _check_ground(ground: Ground, line: Line) -> Iterator[str]:
    """Hazards and walls on the road: enough of it must stay free everywhere, and the start must be clear."""
    bad = np.isin(
        ground.surface,
        [CODES[s.name] for s in SURFACES if s.effect in (Effect.WALL, Effect.FALL, Effect.LAVA, Effect.WATER)],
    )
    for k in range(0, len(line.xy), 2):
        ux, uy = line.ahead(k)
        half = line.width[k] / 2
        across = np.arange(-half + 2, half - 1, 2.0)
        rows, columns = (
            ((line.xy[k, 1] + across * ux) / TILE).astype(int),
            ((line.xy[k, 0] - across * uy) / TILE).astype(int),
        )
        blocked = np.flatnonzero(np.concatenate([[True], bad[rows, columns], [True]]))
        if (np.diff(blocked).max() - 1) * 2 < FREE:
            yield f"less than {FREE} pixels of the road are free {_locate(line, k)}"
            return
