"""Tables of numbers for the ROM: sines, the rows of the Mode 7 matrix, the figures of the speed."""

import math
import struct

HORIZON = 32  # line at which the ground would be infinitely far
FOCAL = 120  # distance of the picture plane, pixels
SCALE = 34.0  # height of the camera, pixels of the map
FIRST_LINE = 37  # of the ground on the screen
LINES = 72
BASE_LINE = HORIZON + FOCAL  # the line that shows the matrix's centre
KART_LINE = 100  # the line that shows the ground under the kart
BANK_ANGLES = 64  # angles whose rows share a bank
ROW = LINES * 4  # bytes of an angle


def _signed(value: float) -> int:
    """Nearest integer, halves away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _cos(angle: int) -> float:
    """Cosine of angle / 256 of a turn, exact at the quarters."""
    return math.cos((angle % 256) * math.pi / 128) if angle % 64 else (1.0, 0.0, -1.0, 0.0)[angle // 64 % 4]


def sine() -> bytes:
    """|sin| * 255 for 1024 steps of a turn."""
    return bytes(_signed(abs(math.sin(k * math.pi / 512)) * 255) for k in range(1024))


def matrices() -> list[bytes]:
    """Four banks: for each angle and line of the ground M7A and M7B (or M7C and M7D), 8.8 fixed point.

    With T(angle) = scale * cos(angle): A = D = T(a), B = T(a + 64), C = T(a - 64). The pair (C, D) of an angle is
    the pair (A, B) of the angle a quarter turn before, so one table serves both.
    """
    scales = [SCALE / (FIRST_LINE + k - HORIZON) for k in range(LINES)]
    rows = [b"".join(struct.pack("<hh", _signed(256 * s * _cos(a)), _signed(256 * s * _cos(a + 64))) for s in scales) for a in range(256)]
    return [b"".join(rows[k : k + BANK_ANGLES]) for k in range(0, 256, BANK_ANGLES)]


def small() -> dict[str, bytes]:
    """The tables that tables.s includes, by file name."""
    behind = SCALE * (BASE_LINE - KART_LINE) / (KART_LINE - HORIZON)
    speeds = [v * 8 * 30 // 192 for v in range(128)]  # 768 shows as 120
    return {
        "sine.bin": sine(),
        "offset_x.bin": b"".join(struct.pack("<h", _signed(-behind * _cos(a - 64))) for a in range(256)),
        "offset_y.bin": b"".join(struct.pack("<h", _signed(behind * _cos(a))) for a in range(256)),
        "matrix_row.bin": b"".join(struct.pack("<H", 0x8000 + k * ROW) for k in range(BANK_ANGLES)),
        "speed_digits.bin": b"".join(struct.pack("<H", int(str(v), 16)) for v in speeds),
    }
