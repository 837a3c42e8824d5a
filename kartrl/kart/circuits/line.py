"""The centre line of a circuit's road.

Results depend on + - * / and sqrt only, so that the compiled bytes are the same on every machine.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kartrl.kart.circuits.format import Circuit

Floats = npt.NDArray[np.float64]
STEP = 4.0  # pixels between samples along the line
FINE = 48  # pieces between two control points before resampling
SECTION = 64  # approximate length of a section, pixels
# unit vectors of 256 directions in 1/4096, clockwise from north; rounding hides differences between machines
_COMPASS = [(round(4096 * math.sin(k * math.pi / 128)), round(-4096 * math.cos(k * math.pi / 128))) for k in range(256)]
DIRECTIONS = np.array(_COMPASS, np.int64)


class Line(NamedTuple):
    """A closed line, sampled about every `STEP` pixels."""

    xy: Floats  # [n, 2]
    width: Floats  # [n] of the road
    at: Floats  # [n] position in control points, with fractions
    length: float

    def nearest_sample(self, at: float) -> int:
        """The first sample at or after a position in control points."""
        return int(np.searchsorted(self.at, at)) % len(self.at)

    def ahead(self, sample: int, reach: int = 3) -> tuple[float, float]:
        """Unit vector of the line's direction at a sample, from `reach` samples behind to `reach` ahead."""
        (x0, y0), (x1, y1) = self.xy[(sample - reach) % len(self.xy)], self.xy[(sample + reach) % len(self.xy)]
        norm = math.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2) or 1.0
        return float(x1 - x0) / norm, float(y1 - y0) / norm

    def place(self, at: float, across: float, inset: float = 12.0) -> tuple[float, float]:
        """The pixel at a position on the road, at least `inset` pixels from its edge."""
        sample = self.nearest_sample(at)
        ux, uy = self.ahead(sample)
        off = across * max(0.0, float(self.width[sample]) / 2 - inset)
        return float(self.xy[sample, 0]) - off * uy, float(self.xy[sample, 1]) + off * ux

    def turns(self) -> Floats:
        """Curvature at each sample, radians per pixel (as the sine of a small angle), positive to the right."""
        u, v = self.xy - np.roll(self.xy, 4, 0), np.roll(self.xy, -4, 0) - self.xy
        cross = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
        turn: Floats = cross / (np.sqrt((u * u).sum(1) * (v * v).sum(1)) + 1e-9) / (4 * STEP)
        return turn


def line_of(circuit: Circuit) -> Line:
    """The centre line through a circuit's control points."""
    fine = _rounded(circuit.points) if circuit.corners == "right" else _curve(circuit.points)
    fine = np.append(fine, [[*fine[0, :3], len(circuit.points)]], axis=0)
    piece = np.diff(fine[:, :2], axis=0)
    reached = np.append(0.0, np.cumsum(np.sqrt(piece[:, 0] ** 2 + piece[:, 1] ** 2)))
    length = float(reached[-1])
    count = max(8, int(length / STEP + 0.5))
    s = length * np.arange(count) / count
    j = np.searchsorted(reached, s, "right") - 1
    f = (s - reached[j]) / (reached[j + 1] - reached[j])
    samples = fine[j] + f[:, None] * (fine[j + 1] - fine[j])
    return Line(samples[:, :2].copy(), samples[:, 2].copy(), samples[:, 3].copy(), length)


def _curve(points: Sequence[tuple[float, float, float]]) -> Floats:
    """Closed Catmull-Rom curve through (x, y, width): x, y, width and position of its pieces' ends, [n, 4]."""
    b = np.array(points)[:, None]
    a, c, d = np.roll(b, 1, 0), np.roll(b, -1, 0), np.roll(b, -2, 0)
    t = (np.arange(FINE) / FINE)[:, None]
    fine = 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t * t * t)
    at = np.arange(len(b))[:, None, None] + t
    return np.concatenate([fine, at], axis=2).reshape(-1, 4)


def _rounded(points: Sequence[tuple[float, float, float]]) -> Floats:
    """Straight pieces between the points, with rounded corners that a kart can follow; as `_curve`."""
    fine: list[tuple[float, float, float, float]] = []
    count = len(points)
    for i in range(count):
        (ax, ay, _), (bx, by, width), (cx, cy, _) = (points[(i + k) % count] for k in (-1, 0, 1))
        before, after = math.sqrt((bx - ax) ** 2 + (by - ay) ** 2), math.sqrt((cx - bx) ** 2 + (cy - by) ** 2)
        bow = min(width * 0.6, before / 2.5, after / 2.5)
        sx, sy = bx - (bx - ax) * bow / before, by - (by - ay) * bow / before
        ex, ey = bx + (cx - bx) * bow / after, by + (cy - by) * bow / after
        for k in range(9):
            t = k / 8
            x = (1 - t) * (1 - t) * sx + 2 * t * (1 - t) * bx + t * t * ex
            y = (1 - t) * (1 - t) * sy + 2 * t * (1 - t) * by + t * t * ey
            back = (t - 0.5) * 2 * (bow / before if t < 0.5 else bow / after)
            fine.append((x, y, width, i + back))
    return np.array(fine[4:] + [(x, y, width, at + count) for x, y, width, at in fine[:4]])  # begin at point 0 itself


def direction(dx: float, dy: float) -> int:
    """The nearest of 256 directions, 0 north, 64 east."""
    return int(np.argmax(DIRECTIONS[:, 0] * dx + DIRECTIONS[:, 1] * dy))


def section_count(circuit: Circuit, line: Line) -> int:
    return circuit.sections or max(40, min(64, int(line.length / SECTION + 0.5)))


def gates(line: Line, sections: int) -> tuple[tuple[int, int, int], ...]:
    """The middle of each section: x, y, direction 0 to 255."""
    found = []
    for i in range(sections):
        k = (2 * i + 1) * len(line.xy) // (2 * sections)
        found.append((int(line.xy[k, 0] + 0.5), int(line.xy[k, 1] + 0.5), direction(*line.ahead(k))))
    return tuple(found)
