"""The background layer: the sky with hills, the panel below the road, and their colours."""

import numpy as np
import tiles
from font import glyph

from kartrl.kart.circuits.reduction import split_tiles

SKY, PANEL, MAP = 4, 5, 6  # palettes of the layer
WIDTH = 512  # pixels of the sky: half a turn
SKY_ROWS = (1, 5)  # rows of tiles of the sky
PANEL_ROW = 14  # first row of tiles of the panel
MINI_ROW, MINI_COLUMN, MINI_CELLS = 14, 1, 14
TITLE_ROW, TITLE_COLUMN = 15, 17
LIMIT = 384  # maximum tiles of the layer


def _sky() -> np.ndarray:
    """Gradient, clouds, far mountains and near hills, uint8 [32, 512], with a period of 256 pixels."""
    out = np.zeros((32, WIDTH), np.uint8)
    for y in range(32):
        out[y] = (1, 2, 3, 4, 5)[min(4, max(0, (y - 5) // 5))]
    far = [14, 17, 22, 16, 12, 15, 20, 22]
    near = [25, 26, 28, 27, 25, 24, 26, 28]
    for x in range(WIDTH):
        k, f = x % 256 // 32, x % 32
        peak = (far[k] * (32 - f) + far[(k + 1) % 8] * f) // 32
        out[peak:, x] = 7 if (x + peak) % 64 < 32 else 8
        if peak < 17:
            out[peak : peak + 2, x] = 12
        ease = f * f * (96 - 2 * f)  # smoothstep, of 32768
        hill = (near[k] * (32768 - ease) + near[(k + 1) % 8] * ease) // 32768
        out[hill:, x] = 10
        out[hill, x] = 9
        out[30:, x] = 11
    for cx, cy, w in ((24, 8, 13), (112, 7, 10), (176, 10, 15), (228, 8, 8)):
        for x in range(-w, w):
            for y in range(-3, 3):
                if x * x * 9 + y * y * w * w <= 9 * w * w and (y < 2):
                    for turn in (0, 256):
                        out[cy + y, cx + x + turn] = 6 if y < 1 else 5
    return out


def panel() -> tuple[bytes, list[int], dict[str, int]]:
    """Shared tiles (32 bytes each), the layer's tilemap of 2048 words, and the tile number of each letter."""
    known: dict[bytes, int] = {}
    layer = [0] * 2048

    def number(tile: np.ndarray) -> int:
        return known.setdefault(tiles.pack(tile), len(known))

    number(np.zeros(64, np.uint8))
    sky = split_tiles(_sky())
    for k, tile in enumerate(sky):
        row, column = divmod(k, WIDTH // 8)
        layer[column // 32 * 1024 + (SKY_ROWS[0] + row) * 32 + column % 32] = number(tile) | SKY << 10
    plain = np.full((8, 8), 2, np.uint8)
    weave = plain.copy()
    weave[::4, ::4] = weave[2::4, 2::4] = 1
    rule = plain.copy()
    rule[0], rule[1] = 4, 3
    for row in range(PANEL_ROW - 1, 32):
        for column in range(32):
            layer[row * 32 + column] = number((rule if row == PANEL_ROW else weave).reshape(-1)) | PANEL << 10
    letters: dict[str, int] = {}
    for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ":
        art = weave.copy()
        shadow = np.zeros((8, 8), bool)
        shadow[1:8, 1:6] = glyph(letter)
        art[shadow] = 1
        art[0:7, 0:5][glyph(letter)] = 5
        letters[letter] = number(art.reshape(-1))
    golden = {}
    for letter in "LAPTIMESPD/KH'5\"":
        art = weave.copy()
        art[0:7, 0:5][glyph(letter)] = 6
        golden[letter] = number(art.reshape(-1))
    for words, row, column in (("LAP", 18, 17), ("/5", 18, 24), ("TIME", 21, 17), ("SPEED", 24, 17), ("KM/H", 24, 27)):
        for k, letter in enumerate(words):
            layer[row * 32 + column + k] = golden[letter] | PANEL << 10
    coin = weave.copy()
    y, x = np.mgrid[0:8, 0:8]
    away = (x - 3.5) ** 2 + (y - 3.5) ** 2
    coin[away < 13] = 6
    coin[(away < 4) & (x == 3)] = 1
    layer[18 * 32 + 27] = number(coin.reshape(-1)) | PANEL << 10
    return b"".join(known), layer, letters
