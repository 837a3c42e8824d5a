"""Sprites: the kart seen from behind, its shadow, dust and sparks, the sign, digits and messages."""

import math

import numpy as np
from font import glyph, outlined, text

Colours = dict[int, tuple[int, int, int]]
KART, EFFECT, FIGURE, OPPONENT = 0, 1, 2, 3  # palettes of the sprites; those of the opponents from OPPONENT on
COLOURS: Colours = {  # five bits per channel; sprites start at 128, sixteen colours per palette
    128 + 1: (3, 3, 5), 128 + 2: (7, 7, 9), 128 + 3: (12, 12, 14), 128 + 4: (20, 20, 22),
    128 + 5: (15, 2, 4), 128 + 6: (24, 4, 5), 128 + 7: (31, 10, 8), 128 + 8: (31, 20, 16),
    128 + 9: (4, 8, 18), 128 + 10: (7, 14, 26), 128 + 11: (14, 23, 31), 128 + 12: (27, 30, 31),
    128 + 13: (30, 24, 6), 128 + 14: (22, 15, 3), 128 + 15: (24, 17, 12),
    144 + 1: (4, 4, 6), 144 + 2: (18, 14, 8), 144 + 3: (24, 20, 13), 144 + 4: (29, 26, 19),
    144 + 5: (19, 19, 20), 144 + 6: (25, 25, 26), 144 + 7: (31, 31, 31), 144 + 8: (31, 29, 8),
    144 + 9: (31, 18, 4), 144 + 10: (29, 6, 5), 144 + 11: (3, 8, 5), 144 + 12: (10, 19, 29), 144 + 13: (19, 26, 31),
    160 + 1: (3, 3, 8), 160 + 2: (31, 31, 31), 160 + 3: (31, 28, 14), 160 + 4: (31, 22, 4),
    160 + 5: (29, 12, 2), 160 + 6: (29, 5, 5),
}  # fmt: skip
_OTHERS = (  # body and driver of the opponents, in place of the kart's red and blue; dark to light
    (((2, 11, 4), (4, 18, 7), (10, 25, 12), (20, 31, 20)), ((20, 14, 2), (27, 21, 4), (31, 28, 10), (31, 31, 22))),
    (((3, 7, 20), (5, 12, 27), (12, 20, 31), (22, 27, 31)), ((19, 6, 2), (27, 11, 3), (31, 18, 8), (31, 26, 18))),
    (((12, 3, 16), (18, 6, 23), (24, 13, 29), (30, 23, 31)), ((3, 14, 14), (6, 21, 20), (13, 28, 26), (24, 31, 30))),
    (((19, 10, 1), (26, 15, 2), (31, 21, 6), (31, 28, 17)), ((4, 8, 18), (7, 14, 26), (14, 23, 31), (27, 30, 31))),
    (((9, 9, 11), (15, 15, 17), (22, 22, 24), (29, 29, 31)), ((15, 2, 4), (24, 4, 5), (31, 10, 8), (31, 20, 16))),
)
for _k, (_body, _driver) in enumerate(_OTHERS):
    _base = 128 + 16 * (OPPONENT + _k)
    COLOURS |= {_base + _c: COLOURS[128 + _c] for _c in range(1, 16)}
    COLOURS |= {_base + 5 + _c: colour for _c, colour in enumerate(_body)} | {
        _base + 9 + _c: colour for _c, colour in enumerate(_driver)
    }
# ramps of the kart's palette, dark to light
TYRE, RED, BLUE, METAL, GOLD = (1, 2, 3), (5, 6, 7, 8), (9, 10, 11, 12), (2, 3, 4, 12), (14, 13, 13)
VIEWS = (0.0, 0.2, 0.42, 0.75)  # rotation of the kart in its sprites, radians
SIZES = (32, 24, 16, 11, 7)  # widths of the opponents' sprites, pixels; ROM: sprites.s
TURNS = 5  # views of an opponent, from behind in steps of an eighth turn; the rest are mirrored

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
    """Distance along the ray and surface normal of its first intersection with the part, or None."""
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


def kart(turned: float, size: int = 32) -> np.ndarray:
    """The kart from behind and above, turned right by `turned` radians; uint8, 32x32 or for small sizes 16x16."""
    cell = 32 if size > 16 else 16
    out = np.zeros((cell, cell), np.uint8)
    depth = np.full((cell, cell), 1e9)
    sin, cos, down = math.sin(turned), math.cos(turned), 0.42
    ray = (0.0, math.cos(down), -math.sin(down))
    light = (-0.45, -0.5, 0.74)

    def spin(v: tuple[float, float, float]) -> tuple[float, float, float]:  # world to kart
        return (v[0] * cos - v[1] * sin, v[0] * sin + v[1] * cos, v[2])

    for y in range(cell):
        for x in range(cell):
            px, py = (x - (cell - 1) / 2) * 1.03 * 32 / size, (cell - 1 - y) * 32 / size - 5.5
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
    if size < 12:  # only outline would be left
        return out
    filled = out > 0
    edge = np.zeros_like(filled)
    edge[1:] |= filled[:-1]
    edge[:-1] |= filled[1:]
    edge[:, 1:] |= filled[:, :-1]
    edge[:, :-1] |= filled[:, 1:]
    out[edge & ~filled] = 1
    return out


def _disc(size: int, rules: list[tuple[float, float, float, int]]) -> np.ndarray:
    """Overlaid discs (x, y, radius, colour), uint8 [size, size]."""
    out = np.zeros((size, size), np.uint8)
    y, x = np.mgrid[0:size, 0:size]
    for cx, cy, radius, colour in rules:
        out[(x - cx) ** 2 + (y - cy) ** 2 <= radius * radius] = colour
    return out


def _shadow() -> np.ndarray:
    y, x = np.mgrid[0:32, 0:32]
    return (((x - 15.5) / 14) ** 2 + ((y - 25) / 4.5) ** 2 <= 1).astype(np.uint8)


def _sign() -> np.ndarray:
    """A round sign with a U-turn arrow, 32x32."""
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
    """A digit of 10x14 pixels centred in 16x16, with a vertical gradient."""
    big = np.repeat(np.repeat(glyph(str(digit)), 2, 0), 2, 1)
    out = np.zeros((16, 16), np.uint8)
    out[:, :12] = outlined(big, 2, 1)
    for y in range(16):
        out[y][out[y] == 2] = 2 if y < 6 else 3 if y < 10 else 4
    return out


def _message(words: str, fill: int) -> np.ndarray:
    """Text centred in 80x16."""
    line = outlined(np.repeat(text(words), 2, 0), fill, 1)
    out = np.zeros((16, 80), np.uint8)
    left = (80 - line.shape[1]) // 2
    out[:, left : left + line.shape[1]] = line
    return out


def _drone() -> np.ndarray:
    """The drone that carries a fallen kart: a ring with two rotors and a hook, 32x32."""
    out = _disc(
        32,
        [
            (15.5, 14, 8, 1),
            (15.5, 14, 7, 5),
            (14.5, 13, 5.5, 6),
            (15.5, 15, 3.6, 1),
            (15.5, 15, 2.6, 8),
            (14.8, 14.2, 1.2, 7),
        ],
    )
    for left in (0, 20):
        out[8:10, left + 1 : left + 11] = 1
        out[8, left + 2 : left + 10] = 7
        out[9:14, left + 5 : left + 7] = 1
    out[22:30, 15:17] = 1
    out[28:30, 11:21] = 1
    out[25:29, 11:13] = out[25:29, 19:21] = 1
    return out


def _flame(long: int) -> np.ndarray:
    """The exhaust of a boosted kart, two flames of `long` pixels, 16x16."""
    out = np.zeros((16, 16), np.uint8)
    for left in (1, 9):
        for k in range(long):
            half = max(0, 3 - k * 4 // long)
            out[2 + k, left + 3 - half : left + 3 + half] = 10 if k > long * 2 // 3 else 9 if k > long // 3 else 8
        out[2, left + 2 : left + 4] = 7
    return out


def _splash(high: int) -> np.ndarray:
    """Drops thrown up, 16x16."""
    drops = [(x, 13 - high * (7 - abs(x - 8)) // 8, 1.6, 12 if x % 3 else 7) for x in range(2, 15, 2)]
    return _disc(16, [(8, 13, 5, 13), *((float(x), float(y), r, c) for x, y, r, c in drops)])


def sheet() -> tuple[np.ndarray, dict[str, int], list[int]]:
    """All sprites: the sheet, uint8 [256, 128]; tile and attributes of each by name; those of the opponents.

    The opponents have 8 views, an eighth of a turn apart, for each of `SIZES`.
    """
    out = np.zeros((256, 128), np.uint8)
    looks: dict[str, int] = {}

    def put(name: str, art: np.ndarray, x: int, y: int, palette: int) -> int:
        out[y : y + art.shape[0], x : x + art.shape[1]] = art
        look = y // 8 * 16 + x // 8 | palette << 9 | 0x3000
        looks.setdefault(name, look)
        return look

    for k, turned in enumerate(VIEWS):
        put("KART", kart(turned), 32 * k, 0, KART)
    put("SHADOW", _shadow(), 0, 32, EFFECT)
    put("SIGN", _sign(), 32, 32, EFFECT)
    put("SPARK", _spark(), 64, 32, EFFECT)
    put("DOT", _disc(16, [(7, 7, 4.3, 1), (7, 7, 3.2, 7), (7, 7, 2.2, 10)]), 80, 32, EFFECT)
    put("OTHER_DOT", _disc(16, [(7, 7, 3.6, 1), (7, 7, 2.6, 6)]), 96, 32, KART)
    for name, x, dark, mid, light in (("DUST", 64, 2, 3, 4), ("SMOKE", 96, 5, 6, 7)):
        put(name, _disc(16, [(6, 10, 4.5, dark), (10, 8, 3.6, mid), (5.5, 9, 2.6, light)]), x, 48, EFFECT)
        put(name, _disc(16, [(8, 7, 5, dark), (4, 11, 3, mid), (9, 6, 3, light)]), x + 16, 48, EFFECT)
    for digit in range(10):
        put("FIGURES", _figure(digit), digit % 8 * 16, 64 + digit // 8 * 16, FIGURE)
    put("WRONG", _message("WRONG WAY", 6), 0, 96, FIGURE)
    put("FINISH", _message("FINISHED!", 4), 0, 112, FIGURE)
    for k in (0, 1):
        put("FLAME", _flame(8 + 5 * k), 80 + 16 * k, 96, EFFECT)
        put("SPLASH", _splash(6 + 5 * k), 80 + 16 * k, 112, EFFECT)
    put("DRONE", _drone(), 32, 192, EFFECT)
    large = [(32 * k, 128) for k in range(4)] + [(32 * k, 160) for k in range(4)] + [(0, 192)]
    small = (
        [(64 + 16 * k, 192) for k in range(4)]
        + [(64 + 16 * k, 208) for k in range(4)]
        + [(16 * k, 224) for k in range(8)]
    )
    views = []
    for size in SIZES:
        row = []
        for turn in range(TURNS):
            if (size, turn) == (SIZES[0], 0):
                row.append(looks["KART"])
                continue
            x, y = (large if size > 16 else small).pop(0)
            row.append(put(f"OTHER_{size}", kart(turn * math.pi / 4, size), x, y, KART))
        views += row + [look | 0x4000 for look in row[3:0:-1]]
    return out, looks, views
