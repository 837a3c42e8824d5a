"""Colours of the ground and its small repeating art, as palette indices (0 is see-through)."""

import numpy as np

SIZE = 1024
GRASS_LIGHT, GRASS_MID, GRASS_DARK, GRASS_TUFT = 1, 2, 3, 4
ROAD, ROAD_DARK, ROAD_LIGHT = 5, 6, 7
LINE, BLACK = 8, 12
KERB_RED, KERB_WHITE = 9, 10
VERGE, VERGE_DARK = 11, 21
BLOCK_LIGHT, BLOCK_MID, BLOCK_DARK, BLOCK_EDGE = 13, 14, 15, 16
TREE_LIGHT, TREE_MID, TREE_DARK, TREE_SHADE = 17, 18, 19, 20
GROUND = {  # index: (red, green, blue), five bits each
    GRASS_LIGHT: (10, 22, 6), GRASS_MID: (8, 19, 5), GRASS_DARK: (6, 16, 5), GRASS_TUFT: (13, 24, 8),
    ROAD: (14, 14, 16), ROAD_DARK: (12, 12, 14), ROAD_LIGHT: (16, 16, 18),
    LINE: (30, 30, 30), BLACK: (2, 2, 4), KERB_RED: (27, 5, 5), KERB_WHITE: (29, 28, 27),
    VERGE: (18, 20, 8), VERGE_DARK: (16, 18, 7),
    BLOCK_LIGHT: (31, 27, 14), BLOCK_MID: (28, 20, 6), BLOCK_DARK: (20, 12, 3), BLOCK_EDGE: (10, 5, 2),
    TREE_LIGHT: (10, 26, 10), TREE_MID: (4, 18, 8), TREE_DARK: (2, 12, 6), TREE_SHADE: (1, 7, 4),
}  # fmt: skip


def _art(rows: str, key: dict[str, int]) -> np.ndarray:
    return np.array([[key[c] for c in row] for row in rows.split()], np.uint8)


def tiled(art: np.ndarray) -> np.ndarray:
    """Repeat art over the whole map, uint8 [1024, 1024]."""
    return np.tile(art, (SIZE // art.shape[0], SIZE // art.shape[1]))


GRASS_A = _art(
    "aaaaaaaa aataaaaa aaaaaaaa aaaaaaba aaaaaaaa abaaaaaa aaaaataa aaaaaaaa",
    {"a": GRASS_LIGHT, "b": GRASS_MID, "t": GRASS_TUFT},
)
GRASS_B = _art(
    "bbbbbbbb bbbbbcbb bbbbbbbb babbbbbb bbbbbbbb bbbbbbab bbcbbbbb bbbbbbbb",
    {"a": GRASS_LIGHT, "b": GRASS_MID, "c": GRASS_DARK},
)
ASPHALT = _art(
    "rrrrrrrr rrdrrrrr rrrrrrrl rrrrrrrr rrrrdrrr rlrrrrrr rrrrrrrd rrrrrrrr",
    {"r": ROAD, "d": ROAD_DARK, "l": ROAD_LIGHT},
)
BLOCK = _art(
    "eeeeeeeeeeeeeeee elllllllllllllle elmmmmmmmmmmmmde elmmmmmmmmmmmmde elmmddddddddmmde elmmdmmmmmmlmmde"
    " elmmdmmmmmmlmmde elmmdmmmmmmlmmde elmmdmmmmmmlmmde elmmdmmmmmmlmmde elmmdmmmmmmlmmde elmmllllllllmmde"
    " elmmmmmmmmmmmmde elmmmmmmmmmmmmde edddddddddddddde eeeeeeeeeeeeeeee",
    {"e": BLOCK_EDGE, "l": BLOCK_LIGHT, "m": BLOCK_MID, "d": BLOCK_DARK},
)


def _tree() -> np.ndarray:
    """A round tree seen from above, 24x24, lit from the north-west."""
    out = np.zeros((24, 24), np.uint8)
    for y in range(24):
        for x in range(24):
            away = (2 * x - 23) ** 2 + (2 * y - 23) ** 2
            lit = (2 * x - 15) ** 2 + (2 * y - 15) ** 2 + 90 * ((x * 5 + y * 3) % 4)
            if away < 23 * 23:
                out[y, x] = (
                    TREE_SHADE if away > 20 * 20 else
                    TREE_LIGHT if lit < 200 else TREE_MID if lit < 520 else TREE_DARK
                )  # fmt: skip
    return out


TREE = _tree()
OUTSIDE = _art(
    "dddddddd ddmddddd dmmmdddd ddmddddd dddddddd ddddddmd dddddmmm ddddddmd",
    {"d": TREE_DARK, "m": TREE_MID},
)
