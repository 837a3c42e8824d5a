"""Lookup tables for the ROM: sines, the rows of the Mode 7 matrix, the digits of the speed."""

import math
import struct
from itertools import pairwise

HORIZON = 32  # screen line of the horizon
FOCAL = 120  # focal length, pixels
SCALE = 34.0  # height of the camera, map pixels
FIRST_LINE = 37  # first screen line of the ground
LINES = 72
BASE_LINE = HORIZON + FOCAL  # screen line of the matrix's centre
KART_LINE = 100  # screen line of the ground under the kart
SIZE_LINES = (59, 42, 28, 19)  # lines below the horizon from which on an opponent has the next larger size
BANK_ANGLES = 64  # angles whose rows share a bank
ROW = LINES * 4  # bytes per angle


def _signed(value: float) -> int:
    """Nearest integer, halves away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _cos(angle: int) -> float:
    """Cosine of angle / 256 turns, exact at quarter turns."""
    return math.cos((angle % 256) * math.pi / 128) if angle % 64 else (1.0, 0.0, -1.0, 0.0)[angle // 64 % 4]


def sine() -> bytes:
    """|sin| * 255 of each angle."""
    return bytes(_signed(abs(_cos(k - 64)) * 255) for k in range(256))


def _through(points: list[tuple[int, int]]) -> bytes:
    """Piecewise linear function through (speed, value), one byte per 4 units of speed."""
    out = bytearray()
    for speed in range(0, 1024, 4):
        (x0, y0), (x1, y1) = next((a, b) for a, b in pairwise(points) if a[0] <= speed < b[0])
        out.append(y0 + (y1 - y0) * (speed - x0) // (x1 - x0))
    return bytes(out)


def matrices() -> list[bytes]:
    """Four banks: M7A and M7B (or M7C and M7D) of each angle and ground line, 8.8 fixed point.

    With T(angle) = scale * cos(angle): A = D = T(a), B = T(a + 64), C = T(a - 64). The pair (C, D) of an angle is
    the pair (A, B) of the angle a quarter turn earlier, so one table serves both.
    """
    scales = [SCALE / (FIRST_LINE + k - HORIZON) for k in range(LINES)]
    rows = [
        b"".join(struct.pack("<hh", _signed(256 * s * _cos(a)), _signed(256 * s * _cos(a + 64))) for s in scales)
        for a in range(256)
    ]
    return [b"".join(rows[k : k + BANK_ANGLES]) for k in range(0, 256, BANK_ANGLES)]


def small() -> dict[str, bytes]:
    """The tables that tables.s includes, by file name."""
    behind = SCALE * (BASE_LINE - KART_LINE) / (KART_LINE - HORIZON)
    speeds = [v * 8 * 30 // 192 for v in range(128)]  # 768 shows as 120
    return {
        "sine.bin": sine(),
        # none at rest, less at full speed: 1.48 angles per tick at full lock
        "gain.bin": _through([(0, 0), (16, 40), (160, 228), (256, 236), (480, 236), (768, 216), (1024, 216)]),
        "accel.bin": _through([(0, 12), (192, 12), (768, 3), (1024, 3)]),
        "clock.bin": bytes(int(str(k * 100 // 60), 16) for k in range(60)),
        "offset_x.bin": b"".join(struct.pack("<h", _signed(-behind * _cos(a - 64))) for a in range(256)),
        "offset_y.bin": b"".join(struct.pack("<h", _signed(behind * _cos(a))) for a in range(256)),
        "matrix_row.bin": b"".join(struct.pack("<H", 0x8000 + k * ROW) for k in range(BANK_ANGLES)),
        "half_square.bin": bytes(k * k // 512 for k in range(256)),
        "line_of.bin": bytes(min(127, HORIZON + round(FOCAL * SCALE / max(1, depth))) for depth in range(1024)),
        "width_of.bin": bytes(
            min(255, FOCAL * (64 if d < 128 else 256 if d < 512 else 1024) // max(1, d)) for d in range(1024)
        ),
        "size_of.bin": bytes(16 * sum(line - HORIZON < least for least in SIZE_LINES) for line in range(128)),
        "mini_at.bin": bytes(p * 8 // 7 for p in range(112)),
        "speed_digits.bin": b"".join(struct.pack("<H", int(str(v), 16)) for v in speeds),
    }
