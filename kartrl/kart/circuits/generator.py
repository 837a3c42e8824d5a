"""Random circuits by rejection sampling: generate until the checks pass. Needs no emulator."""

import math
import random
from collections.abc import Callable

from kartrl.errors import UserError
from kartrl.kart.circuits.appearance.kinds import KINDS
from kartrl.kart.circuits.checks import find_faults, find_road_faults
from kartrl.kart.circuits.format import Circuit, Coins, Jump, Patch, Plate, Point, Rail
from kartrl.kart.circuits.line import Line, line_of

TRIES = 400
SHORTEST = 2800  # pixels of the centre line: laps of about fifteen seconds
# lanes each way, pixels between them, and position of the first: multiples of 16
LANES, PITCH, FIRST = 6, 160, 112
WIDTHS = {"castle": (96, 96), "planks": (64, 96), "rainbow": (56, 68)}  # others: 76 to 92
CORNERS = {"castle": 1.0, "planks": 0.7, "rainbow": 0.25}  # share of circuits with right angles
PATCHES = {"mud": ("mud", 3, 7), "beach": ("shallows", 1, 4), "ice": ("snow", 1, 4), "dirt": ("soil", 0, 3)}
Cell = tuple[int, int]
Draw = random.Random


def random_circuit(seed: int, kind: str) -> Circuit:
    """A circuit that can be driven; deterministic in seed and kind on every machine.

    Raises:
        UserError: unknown kind.
    """
    if kind not in KINDS:
        raise UserError(f"unknown kind of circuit {kind!r}; choose one of: {', '.join(KINDS)}")
    draw = random.Random(f"{kind} {seed}")
    title = f"{kind.upper()} {seed % 1_000_000}"
    for _ in range(TRIES):
        bare = _make_road(draw, kind, title)
        if bare is None or find_road_faults(bare):
            continue
        line = line_of(bare)
        if line.length < SHORTEST:
            continue
        for _ in range(8):
            whole = bare.model_copy(update=_random_objects(draw, bare, line))
            if not find_faults(whole):
                return whole
    raise UserError(f"seed {seed} gives no valid {kind} circuit: choose another seed")


def _make_road(draw: Draw, kind: str, title: str) -> Circuit | None:
    """A layout; None if this attempt failed."""
    least, most = WIDTHS.get(kind, (76, 92))
    width = least + int(draw.random() * (most - least + 1))
    right = draw.random() < CORNERS.get(kind, 0)
    if right:
        width = 96 if kind == "castle" else 64 + 16 * (kind == "planks" and draw.random() < 0.5)
        points = _make_square(draw, width)
    elif draw.random() < 0.4:
        points = _make_bulging(draw, width)
    else:
        points = _make_winding(draw, width)
    if draw.random() < 0.5:
        points.reverse()
    if not right:
        points = _start_on_straight(title, kind, points)
    return (
        None
        if len(points) < 4
        else Circuit(title=title, kind=kind, corners="right" if right else "round", points=tuple(points))
    )


def _walk(draw: Draw) -> list[Cell]:
    """A loop over the lanes that never crosses itself: around a random tree on a coarse grid."""
    side = LANES // 2
    size = 4 + int(draw.random() * 5)
    tree: set[tuple[Cell, Cell]] = set()
    nodes = [(int(draw.random() * side), int(draw.random() * side))]
    while len(nodes) < size:
        x, y = nodes[int(draw.random() * len(nodes))]
        dx, dy = ((1, 0), (0, 1), (-1, 0), (0, -1))[int(draw.random() * 4)]
        other = (x + dx, y + dy)
        if other not in nodes and 0 <= other[0] < side and 0 <= other[1] < side:
            nodes.append(other)
            tree |= {((x, y), other), (other, (x, y))}

    def step(cell: Cell, way: int) -> Cell | None:
        """The next lane crossing in that direction, unless that crosses a branch or leaves the tree."""
        dx, dy = ((0, -1), (1, 0), (0, 1), (-1, 0))[way]
        x, y = cell[0] + dx, cell[1] + dy
        here, there = (cell[0] // 2, cell[1] // 2), (x // 2, y // 2)
        if here != there:
            return (x, y) if (here, there) in tree else None
        # inside a node: a side is open where no branch passes
        beyond = (
            (here[0], here[1] + (1 if cell[1] % 2 else -1)) if dx else (here[0] + (1 if cell[0] % 2 else -1), here[1])
        )
        return None if (here, beyond) in tree else (x, y)

    first = (2 * nodes[0][0], 2 * nodes[0][1])
    loop, before, cell = [first], first, next(found for way in range(4) if (found := step(first, way)) is not None)
    while cell != first:
        loop.append(cell)
        cell, before = next(f for way in range(4) if (f := step(cell, way)) is not None and f != before), cell
    return loop


def _make_square(draw: Draw, width: float) -> list[Point]:
    """Right angles: the corners of a walk, with the first point on its longest straight."""
    loop = _walk(draw)
    count = len(loop)
    corners = [
        b
        for a, b, c in ((loop[i - 1], loop[i], loop[(i + 1) % count]) for i in range(count))
        if a[0] != c[0] and a[1] != c[1]
    ]
    places = [(FIRST + PITCH * x, FIRST + PITCH * y) for x, y in corners]
    spans = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in zip(places, places[1:] + places[:1], strict=True)]
    k = spans.index(max(spans))
    places = places[k + 1 :] + places[: k + 1]
    (ax, ay), (bx, by) = places[-1], places[0]
    first: Point = ((ax + bx) // 32 * 16, (ay + by) // 32 * 16, width)
    return [first, *((float(x), float(y), width) for x, y in places)]


def _make_winding(draw: Draw, width: float) -> list[Point]:
    """Bends: points half way between the crossings of a walk, with random offsets from the grid."""
    loop = _walk(draw)
    span = 1024 - 2 * (width / 2 + 40)
    margin = (1024 - span) / 2
    columns = sorted({x for x, _ in loop})
    rows = sorted({y for _, y in loop})
    pitch = min(span / (len(columns) - 1), span / (len(rows) - 1), 210.0)
    left = margin + (span - pitch * (len(columns) - 1)) * draw.random()
    top = margin + (span - pitch * (len(rows) - 1)) * draw.random()
    shift = {cell: (draw.random() - 0.5, draw.random() - 0.5) for cell in loop}
    loose = (pitch - width - 24) * 0.75
    places = [
        (left + pitch * columns.index(x) + loose * shift[x, y][0], top + pitch * rows.index(y) + loose * shift[x, y][1])
        for x, y in loop
    ]
    return [
        (_clip_to_map((a[0] + b[0]) / 2, width), _clip_to_map((a[1] + b[1]) / 2, width), width)
        for a, b in zip(places, places[1:] + places[:1], strict=True)
    ]


def _make_bulging(draw: Draw, width: float) -> list[Point]:
    """A circle whose radius varies by a few random harmonics."""
    waves = [(k, (0.34 / k) * draw.random(), math.tau * draw.random()) for k in (1, 2, 3, 4, 5)]
    count = 18 + int(draw.random() * 8)
    size = 330 + 60 * draw.random()
    flat_x, flat_y = 0.85 + 0.3 * draw.random(), 0.85 + 0.3 * draw.random()
    points: list[Point] = []
    for i in range(count):
        angle = math.tau * i / count
        reach = size * (1 + sum(share * math.cos(k * angle + phase) for k, share, phase in waves))
        x, y = 512 + flat_x * reach * math.cos(angle), 512 + flat_y * reach * math.sin(angle)
        points.append((_clip_to_map(x, width), _clip_to_map(y, width), width))
    return points


def _clip_to_map(place: float, width: float) -> int:
    edge = width / 2 + 28
    return round(min(max(place, edge), 1024 - edge))


def _start_on_straight(title: str, kind: str, points: list[Point]) -> list[Point]:
    """The same loop, rotated to start at its straightest point."""
    line = line_of(Circuit(title=title, kind=kind, points=tuple(points)))

    def bend(i: int) -> float:
        sample = line.nearest_sample(i)
        (ax, ay), (bx, by) = line.ahead(sample - 12), line.ahead(sample + 12)
        return round(abs(ax * by - ay * bx), 6)

    k = min(range(len(points)), key=bend)
    return points[k:] + points[:k]


def _random_objects(draw: Draw, circuit: Circuit, line: Line) -> dict[str, tuple]:
    count, kind = len(circuit.points), circuit.kind

    def somewhere(make: Callable[[float], object], least: int, most: int) -> tuple:
        return tuple(
            make(round(0.5 + draw.random() * (count - 1), 2))
            for _ in range(least + int(draw.random() * (most - least + 1)))
        )

    def across() -> float:
        return round((draw.random() - 0.5) * 1.4, 1)

    found = {
        "coins": somewhere(lambda at: Coins(at=at, across=across(), count=3 + int(draw.random() * 2)), 2, 4),
        "boosts": somewhere(lambda at: Plate(at=at, across=across()), 0, 2),
        "jumps": somewhere(lambda at: Jump(at=at), 0, 1)
        if kind in ("dirt", "asphalt", "beach", "mud", "castle")
        else (),
    }
    ground, least, most = PATCHES.get(kind, ("", 0, 0))
    if ground:
        found["patches"] = somewhere(lambda at: Patch(ground=ground, at=at, across=across(), size=24), least, most)
    if kind in ("dirt", "ice"):
        found["patches"] += _random_lakes(draw, line)
    if KINDS[kind].border is False and kind != "beach":
        found["rails"] = _random_rails(draw, kind, count)
    return found


def _random_lakes(draw: Draw, line: Line) -> tuple[Patch, ...]:
    lakes = []
    for _ in range(6):
        x, y, size = int(draw.random() * 1024), int(draw.random() * 1024), 48 + int(draw.random() * 5) * 16
        near = math.sqrt(float(((line.xy - (x, y)) ** 2).sum(1).min())) - float(line.width.max()) / 2
        if near > size + 40 and min(x, y, 1024 - x, 1024 - y) > size + 24:
            lakes.append(Patch(ground="water", x=x, y=y, size=size))
    return tuple(lakes[:2])


def _random_rails(draw: Draw, kind: str, count: int) -> tuple[Rail, ...]:
    """Walls all around a castle with some gaps; elsewhere a few short ones."""
    rails = []
    for start in range(count):
        chance = draw.random()
        side = ("left", "right")[int(draw.random() * 2)]
        if kind == "castle":
            rails.append(
                Rail.model_validate(
                    {"from": start, "to": (start + 1) % count, "side": "both" if chance < 0.7 else side}
                )
            )
        elif chance < 0.3:
            rails.append(
                Rail.model_validate({"from": start, "to": (start + 0.6 + 0.4 * (count < 12)) % count, "side": side})
            )
    return tuple(rails)
