"""Sprites: the kart seen from behind, its shadow, dust and sparks, the sign, figures and messages."""

import math

import numpy as np
from font import glyph, outlined, text

Colours = dict[int, tuple[int, int, int]]
KART, EFFECT, FIGURE = 0, 1, 2  # palettes of the sprites
COLOURS: Colours = {  # five bits a channel; sprites begin at 128, sixteen a palette
    128 + 1: (3, 3, 5), 128 + 2: (7, 7, 9), 128 + 3: (12, 12, 14), 128 + 4: (20, 20, 22),
    128 + 5: (15, 2, 4), 128 + 6: (24, 4, 5), 128 + 7: (31, 10, 8), 128 + 8: (31, 20, 16),
    128 + 9: (4, 8, 18), 128 + 10: (7, 14, 26), 128 + 11: (14, 23, 31), 128 + 12: (27, 30, 31),
    128 + 13: (30, 24, 6), 128 + 14: (22, 15, 3), 128 + 15: (24, 17, 12),
    144 + 1: (4, 4, 6), 144 + 2: (18, 14, 8), 144 + 3: (24, 20, 13), 144 + 4: (29, 26, 19),
    144 + 5: (19, 19, 20), 144 + 6: (25, 25, 26), 144 + 7: (31, 31, 31), 144 + 8: (31, 29, 8),
    144 + 9: (31, 18, 4), 144 + 10: (29, 6, 5), 144 + 11: (3, 8, 5),
    160 + 1: (3, 3, 8), 160 + 2: (31, 31, 31), 160 + 3: (31, 28, 14), 160 + 4: (31, 22, 4),
    160 + 5: (29, 12, 2), 160 + 6: (29, 5, 5),
}  # fmt: skip
# ramps of the kart's palette, dark to light
TYRE, RED, BLUE, METAL, GOLD = (1, 2, 3), (5, 6, 7, 8), (9, 10, 11, 12), (2, 3, 4, 12), (14, 13, 13)
VIEWS = (0.0, 0.2, 0.42, 0.75)  # how far the kart is turned in its pictures, radians

# The kart as ellipsoids and boxes: shape, centre (right, forward, up), half sizes, ramp. Pixels.
_PARTS = (
    ("box", (0, 0, 4.5), (6.5, 9, 2), RED),
    ("box", (0, 8, 4), (5, 5, 1.6), RED),
    ("box", (0, 13, 3.5), (9, 1.5, 1.2), METAL),
    ("box", (0, -9.5, 6.5), (5, 2.5, 2.6), METAL),
    ("ball", (-2.6, -12, 6.5), (1.5, 2, 1.5), TYRE),
    ("ball", (2.6, -12, 6.5), (1.5, 2, 1.5), TYRE),
    ("box", (0, -10, 12.2), (9.5, 1.6, 0.9), GOLD),
    ("box", (-7, -9.5, 9.5), (0.7, 1.2, 2.6), METAL),
    ("box", (7, -9.5, 9.5), (0.7, 1.2, 2.6), METAL),
    ("box", (-9.3, -7, 4.6), (2.7, 4.2, 4.2), TYRE),
    ("box", (9.3, -7, 4.6), (2.7, 4.2, 4.2), TYRE),
    ("box", (-8.8, 9, 3.6), (2.2, 3.4, 3.4), TYRE),
    ("box", (8.8, 9, 3.6), (2.2, 3.4, 3.4), TYRE),
    ("ball", (0, -3, 10.5), (5.8, 4.2, 6), BLUE),
    ("ball", (-5.2, 0, 11), (2.2, 3.6, 2.4), BLUE),
    ("ball", (5.2, 0, 11), (2.2, 3.6, 2.4), BLUE),
    ("ball", (0, -2.6, 19), (5.4, 5.4, 5.2), RED),
    ("ball", (0, -2.4, 20.4), (1.6, 5.7, 4.6), METAL),
)


def _hit(
    shape: str, origin: tuple[float, float, float], ray: tuple[float, float, float], half: tuple[float, float, float]
) -> tuple[float, list[float]] | None:
    """Distance along the ray and the surface's normal where it first meets the part, or None."""
    if shape == "ball":
        o = [origin[k] / half[k] for k in range(3)]
        r = [ray[k] / half[k] for k in range(3)]
        a, b, c = sum(v * v for v in r), sum(u * v for u, v in zip(o, r, strict=True)), sum(v * v for v in o) - 1
        root = b * b - a * c
        if root < 0:
            return None
        t = (-b - math.sqrt(root)) / a
        n = [(o[k] + t * r[k]) / half[k] for k in range(3)]
        norm = math.sqrt(sum(v * v for v in n))
        return t, [v / norm for v in n]
    near, far, axis = -1e9, 1e9, 0
    for k in range(3):
        if abs(ray[k]) < 1e-9:
            if abs(origin[k]) > half[k]:
                return None
            continue
        one, two = (-half[k] - origin[k]) / ray[k], (half[k] - origin[k]) / ray[k]
        if min(one, two) > near:
            near, axis = min(one, two), k
        far = min(far, max(one, two))
    if near > far:
        return None
    normal = [0.0, 0.0, 0.0]
    normal[axis] = -1.0 if ray[axis] > 0 else 1.0
    return near, normal


def kart(turned: float) -> np.ndarray:
    """The kart from behind and above, turned to the right by so many radians; uint8 [32, 32]."""
    out = np.zeros((32, 32), np.uint8)
    depth = np.full((32, 32), 1e9)
    sin, cos, down = math.sin(turned), math.cos(turned), 0.42
    ray = (0.0, math.cos(down), -math.sin(down))
    light = (-0.45, -0.5, 0.74)

    def spin(v: tuple[float, float, float]) -> tuple[float, float, float]:  # world to kart
        return (v[0] * cos - v[1] * sin, v[0] * sin + v[1] * cos, v[2])

    for y in range(32):
        for x in range(32):
            px, py = (x - 15.5) * 1.03, 25.5 - y
            eye = (px, -60 * ray[1] + py * math.sin(down), 60 * -ray[2] + py * math.cos(down))
            for shape, centre, half, ramp in _PARTS:
                here = spin(eye)
                origin = (here[0] - centre[0], here[1] - centre[1], here[2] - centre[2])
                hit = _hit(shape, origin, spin(ray), half)
                if hit is None or hit[0] >= depth[y, x]:
                    continue
                depth[y, x] = hit[0]
                lit = sum(u * v for u, v in zip(spin(light), hit[1], strict=True))
                shade = int((0.25 + 0.72 * max(lit, 0.0)) * len(ramp))
                out[y, x] = ramp[min(shade, len(ramp) - 1)]
    filled = out > 0
    edge = np.zeros_like(filled)
    edge[1:] |= filled[:-1]
    edge[:-1] |= filled[1:]
    edge[:, 1:] |= filled[:, :-1]
    edge[:, :-1] |= filled[:, 1:]
    out[edge & ~filled] = 1
    return out


def _disc(size: int, rules: list[tuple[float, float, float, int]]) -> np.ndarray:
    """Discs (x, y, radius, colour) one over the other, uint8 [size, size]."""
    out = np.zeros((size, size), np.uint8)
    y, x = np.mgrid[0:size, 0:size]
    for cx, cy, radius, colour in rules:
        out[(x - cx) ** 2 + (y - cy) ** 2 <= radius * radius] = colour
    return out


def _shadow() -> np.ndarray:
    y, x = np.mgrid[0:32, 0:32]
    return (((x - 15.5) / 14) ** 2 + ((y - 25) / 4.5) ** 2 <= 1).astype(np.uint8)


def _sign() -> np.ndarray:
    """A round sign with an arrow that turns back, 32x32."""
    out = _disc(32, [(15.5, 15.5, 15.4, 1), (15.5, 15.5, 14.4, 10), (15.5, 15.5, 11.6, 7)])
    y, x = np.mgrid[0:32, 0:32]
    ring = (x - 15.5) ** 2 + (y - 15) ** 2
    out[(ring <= 42) & (ring >= 12) & (y < 15)] = 1
    out[(y >= 15) & (y <= 21) & (x >= 19) & (x <= 21)] = 1
    for k in range(5):
        out[21 - k - 1, 11 - k + 0 : 11 + k + 1] = 1
    out[15:17, 10:13] = 1
    return out


def _spark() -> np.ndarray:
    out = np.zeros((16, 16), np.uint8)
    for k in range(8):
        for dy, dx in (
            (k, 0),
            (-k, 0),
            (0, k),
            (0, -k),
            (k * 2 // 3, k * 2 // 3),
            (-k * 2 // 3, k * 2 // 3),
            (k * 2 // 3, -k * 2 // 3),
            (-k * 2 // 3, -k * 2 // 3),
        ):
            out[min(15, 8 + dy), min(15, 8 + dx)] = 7 if k < 3 else 8 if k < 6 else 9
    return out


def _figure(digit: int) -> np.ndarray:
    """A figure of 10x14 in a field of 16x16, shaded downwards."""
    big = np.repeat(np.repeat(glyph(str(digit)), 2, 0), 2, 1)
    out = np.zeros((16, 16), np.uint8)
    out[:, :12] = outlined(big, 2, 1)
    for y in range(16):
        out[y][out[y] == 2] = 2 if y < 6 else 3 if y < 10 else 4
    return out


def _message(words: str, fill: int) -> np.ndarray:
    """Text in the middle of 80x16."""
    line = outlined(np.repeat(text(words), 2, 0), fill, 1)
    out = np.zeros((16, 80), np.uint8)
    left = (80 - line.shape[1]) // 2
    out[:, left : left + line.shape[1]] = line
    return out


def sheet() -> tuple[np.ndarray, dict[str, int]]:
    """All sprites on one sheet, uint8 [256, 128], and the look (tile and attributes) of each by name."""
    out = np.zeros((256, 128), np.uint8)
    looks: dict[str, int] = {}

    def put(name: str, art: np.ndarray, x: int, y: int, palette: int) -> None:
        out[y : y + art.shape[0], x : x + art.shape[1]] = art
        looks.setdefault(name, y // 8 * 16 + x // 8 | palette << 9 | 0x3000)

    for k, turned in enumerate(VIEWS):
        put("KART", kart(turned), 32 * k, 0, KART)
    put("SHADOW", _shadow(), 0, 32, EFFECT)
    put("SIGN", _sign(), 32, 32, EFFECT)
    put("SPARK", _spark(), 64, 32, EFFECT)
    put("DOT", _disc(16, [(7, 7, 4.3, 1), (7, 7, 3.2, 7), (7, 7, 2.2, 10)]), 80, 32, EFFECT)
    for name, x, dark, mid, light in (("DUST", 64, 2, 3, 4), ("SMOKE", 96, 5, 6, 7)):
        put(name, _disc(16, [(6, 10, 4.5, dark), (10, 8, 3.6, mid), (5.5, 9, 2.6, light)]), x, 48, EFFECT)
        put(name, _disc(16, [(8, 7, 5, dark), (4, 11, 3, mid), (9, 6, 3, light)]), x + 16, 48, EFFECT)
    for digit in range(10):
        put("FIGURES", _figure(digit), digit % 8 * 16, 64 + digit // 8 * 16, FIGURE)
    put("WRONG", _message("WRONG WAY", 6), 0, 96, FIGURE)
    put("FINISH", _message("FINISHED!", 4), 0, 112, FIGURE)
    return out, looks
