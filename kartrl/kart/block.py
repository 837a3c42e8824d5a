"""A circuit's block: the memory from 7F0000 on from which the game reads the circuit being driven.

The ROM copies a bundled circuit there, or uses one that was written there from outside (`select` = 255). A start
state therefore contains its whole circuit, with the map and the gates.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kartrl.kart.levels import KINDS

BANK = 0x7F0000
SIDE = 128  # tiles along a side of the map
TILE = 8  # pixels along a side of a tile
SIZE = SIDE * TILE  # pixels along a side of the map
ZONES = 64  # cells of 16x16 pixels along a side of the section table
MAX_SECTIONS = 64
MAX_COINS = 32
TITLE = 14  # characters: capitals, digits and spaces
MAGIC = b"KRC1"

# offsets of the parts, and the total size
TILEMAP, TILES, SECTIONS, TILE_SURFACE = 0x0000, 0x4000, 0x8000, 0x9000
HEADER, TITLE_AT, GATE_X, GATE_Y, GATE_ANGLE = 0x9100, 0x9110, 0x9120, 0x91A0, 0x9220
COINS, MINI_COLOUR, PALETTE, END = 0x9260, 0x9320, 0x9400, 0x9500
_HEADER = struct.Struct("<4sBBBxH6x")  # magic, sections, kind, coins, length of the centre line in pixels


class Coin(NamedTuple):
    """A coin of 2x2 tiles, and the road tiles that replace it when it is taken."""

    column: int  # of its upper left tile
    row: int
    plain: tuple[int, int, int, int]  # upper left, upper right, lower left, lower right


class Block(NamedTuple):
    """A circuit in the form that the ROM reads."""

    title: str
    kind: str
    length: int  # of the centre line, pixels
    gates: tuple[tuple[int, int, int], ...]  # x, y, angle (256 per turn, north 0, east 64): the middle of each section
    tilemap: npt.NDArray[np.uint8]  # [128, 128] tile numbers; tile 0 also fills the area outside the map
    tiles: npt.NDArray[np.uint8]  # [256, 8, 8] colours 0 to 63
    sections: npt.NDArray[np.uint8]  # [64, 64] section of each 16x16 pixels
    surfaces: npt.NDArray[np.uint8]  # [256] code of each tile's surface
    coins: tuple[Coin, ...]
    mini_colours: npt.NDArray[np.uint8]  # [32] minimap colour (of sixteen) of each surface code
    palette: npt.NDArray[np.uint16]  # [128] 15 bits, red lowest: 0 to 63 ground, 64 sky, 80 panel, 96 minimap

    def pack(self) -> bytes:
        """Serialize to `END` bytes.

        Raises:
            ValueError: too many sections or coins, or the title is too long.
        """
        count = len(self.gates)
        if not 1 <= count <= MAX_SECTIONS or len(self.coins) > MAX_COINS or len(self.title) > TITLE:
            raise ValueError(
                f"{count} sections, {len(self.coins)} coins, a title of {len(self.title)}: too large for a block"
            )
        out = bytearray(END)

        def put(at: int, data: bytes) -> None:
            out[at : at + len(data)] = data

        put(TILEMAP, self.tilemap.tobytes())
        put(TILES, self.tiles.tobytes())
        put(SECTIONS, self.sections.tobytes())
        put(TILE_SURFACE, self.surfaces.tobytes())
        put(HEADER, _HEADER.pack(MAGIC, count, KINDS.index(self.kind), len(self.coins), self.length))
        put(TITLE_AT, f"{self.title:<{TITLE}}".encode("ascii"))
        x, y, angle = zip(*self.gates, strict=True)
        put(GATE_X, struct.pack(f"<{count}H", *x))
        put(GATE_Y, struct.pack(f"<{count}H", *y))
        put(GATE_ANGLE, bytes(angle))
        put(COINS, b"".join(bytes((coin.column, coin.row, *coin.plain)) for coin in self.coins))
        put(MINI_COLOUR, self.mini_colours.tobytes())
        put(PALETTE, self.palette.astype("<u2").tobytes())
        return bytes(out)

    @classmethod
    def unpack(cls, data: bytes) -> "Block":
        """Parse a serialized block.

        Raises:
            ValueError: `data` is not a block.
        """
        magic, count, kind, coins, length = _HEADER.unpack_from(data, HEADER)
        if magic != MAGIC or kind >= len(KINDS) or not 1 <= count <= MAX_SECTIONS or coins > MAX_COINS:
            raise ValueError("not a circuit block")

        def numbers(at: int, *shape: int) -> npt.NDArray[np.uint8]:
            return np.frombuffer(data, np.uint8, int(np.prod(shape)), at).reshape(shape)

        places = (
            struct.unpack_from(f"<{count}{size}", data, at)
            for size, at in (("H", GATE_X), ("H", GATE_Y), ("B", GATE_ANGLE))
        )
        return cls(
            title=data[TITLE_AT : TITLE_AT + TITLE].decode("ascii").rstrip(),
            kind=KINDS[kind],
            length=length,
            gates=tuple(zip(*places, strict=True)),
            tilemap=numbers(TILEMAP, SIDE, SIDE),
            tiles=numbers(TILES, 256, TILE, TILE),
            sections=numbers(SECTIONS, ZONES, ZONES),
            surfaces=numbers(TILE_SURFACE, 256),
            coins=tuple(Coin(column, row, tuple(plain)) for column, row, *plain in numbers(COINS, coins, 6).tolist()),
            mini_colours=numbers(MINI_COLOUR, 32),
            palette=np.frombuffer(data, "<u2", 128, PALETTE),
        )

    def image(self) -> npt.NDArray[np.uint8]:
        """The whole map from above, uint8 [1024, 1024, 3]."""
        palette = np.stack([(self.palette >> shift & 31) * 255 // 31 for shift in (0, 5, 10)], axis=1).astype(np.uint8)
        indices = self.tiles[self.tilemap].transpose(0, 2, 1, 3).reshape(SIZE, SIZE)
        return palette[indices]
