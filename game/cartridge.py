"""Links code, tables, art and circuits into the ROM."""

import struct
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import art_objects
import art_panel
import tables
import tiles

from kartrl.kart import block
from kartrl.kart.block import Block
from kartrl.kart.circuits.appearance.surfaces import SURFACES, Effect
from kartrl.kart.circuits.reduction import split_tiles

BANK = 0x8000
SIZE = 0x100000  # bytes of the ROM
MATRIX_BANK, ART_BANK, GROUND_BANK, REST_BANK = 1, 5, 6, 26
# A circuit's tilemap and tiles fill a bank; the rest of its block shares a bank with those of three others.
MOST = REST_BANK - GROUND_BANK
REST = block.SECTIONS  # offset of the rest in a block
REST_SIZE = 0x2000
# addresses in the bank of the shared art
PALETTE, BUILD_ID, PANEL_MAP, PANEL_TILES = 0xC000, 0xC300, 0xC400, 0xD400
CHECKSUM = slice(0x7FDC, 0x7FE0)


def _place(parts: dict[int, bytes]) -> bytes:
    """Build a bank with each part at its address."""
    out = bytearray(BANK)
    end = BANK
    for address, data in sorted(parts.items()):
        if address < end or address + len(data) > 2 * BANK:
            raise ValueError(f"no room for {len(data)} bytes at {address:04X}")
        out[address - BANK : address - BANK + len(data)] = data
        end = address + len(data)
    return bytes(out)


def _circuits(blocks: Sequence[Block]) -> list[bytes]:
    """The banks from `GROUND_BANK` on."""
    if len(blocks) > MOST:
        raise ValueError(f"{len(blocks)} circuits: the ROM has room for {MOST}")
    packed = [found.pack() for found in blocks]
    ground = [data[:REST] for data in packed] + [b""] * (MOST - len(packed))
    rest = [data[REST:].ljust(REST_SIZE, b"\0") for data in packed]
    return [_place({BANK: data}) for data in [*ground, *(b"".join(rest[k : k + 4]) for k in range(0, len(rest), 4))]]


def _surfaces(looks: dict[str, int]) -> str:
    """Assembly source of the surface tables, 32 words each; unused codes are asphalt."""
    rows = [*SURFACES, *[SURFACES[0]] * (32 - len(SURFACES))]
    off_road = SURFACES[0].drag  # surfaces with more drag than asphalt throw up dust
    spray = {"shallows": looks["SPLASH"], "snow": looks["SMOKE"]}
    columns = {
        "surf_top": [row.top for row in rows],
        "surf_share": [min(255, row.top * 256 // SURFACES[0].top) for row in rows],
        "surf_drag": [row.drag for row in rows],
        "surf_grip": [2 * row.grip for row in rows],
        "surf_type": [row.ground_type for row in rows],
        "surf_effect": [2 * row.effect for row in rows],
        "surf_spray": [spray.get(row.name, looks["DUST"]) if row.drag > off_road else 0 for row in rows],
    }
    return "".join(f"{name}: .word {', '.join(map(str, words))}\n" for name, words in columns.items())


def _assemble(source: Path, params: dict[str, int], included: dict[str, bytes]) -> bytes:
    """Assemble and link bank 0."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "params.inc").write_text("".join(f"{key} = {value}\n" for key, value in params.items()))
        for name, data in included.items():
            (work / name).write_bytes(data)
        objects = []
        for file in sorted((source / "src").glob("*.s")):
            objects.append(str(work / f"{file.stem}.o"))
            paths = ["-I", str(work), "-I", str(source / "src"), "--bin-include-dir", str(work)]
            subprocess.run(["ca65", "--cpu", "65816", *paths, "-o", objects[-1], str(file)], check=True)
        subprocess.run(["ld65", "-C", str(source / "lorom.cfg"), "-o", str(work / "bank0"), *objects], check=True)
        return (work / "bank0").read_bytes()


def build(source: Path, blocks: Sequence[Block]) -> tuple[bytes, int]:
    """Build the ROM; returns its bytes and its build id."""
    shared, layer, letters = art_panel.panel()
    sheet, looks, views = art_objects.sheet()
    first = len(shared) // 32
    if first + art_panel.MINI_CELLS**2 > art_panel.LIMIT:
        raise ValueError(f"{first} tiles: the panel has {art_panel.LIMIT}, the minimap takes {art_panel.MINI_CELLS**2}")
    art = _place(
        {
            BANK: b"".join(tiles.pack(tile) for tile in split_tiles(sheet)),
            PALETTE: tiles.palette(art_objects.COLOURS)[0x100:],
            PANEL_MAP: struct.pack("<2048H", *layer),
            PANEL_TILES: shared,
        }
    )
    banks = [*(_place({BANK: rows}) for rows in tables.matrices()), art, *_circuits(blocks)]
    row = art_panel.PANEL_ROW
    params = {
        "ROM_SIZE_CODE": SIZE.bit_length() - 11, "CIRCUITS": len(blocks),
        "MATRIX_BANK": MATRIX_BANK | 0x80, "GROUND_BANK": GROUND_BANK | 0x80, "REST_BANK": REST_BANK | 0x80,
        "BASE_LINE": tables.BASE_LINE, "BUILD_ID_ROM": (ART_BANK | 0x80) << 16 | BUILD_ID,
        "ART_BANK": ART_BANK | 0x80, "ART_OBJ": BANK, "ART_PALETTE": PALETTE, "ART_MAP": PANEL_MAP,
        "ART_BG": PANEL_TILES, "ART_BG_SIZE": len(shared),
        "BLOCK": block.BANK, "BLOCK_TILES": block.TILES, "BLOCK_REST": REST, "BLOCK_REST_SIZE": block.END - REST,
        "MOST_SECTIONS": block.MAX_SECTIONS, "MOST_COINS": block.MAX_COINS,
        **{f"BLOCK_{name}": block.BANK + at for name, at in {
            "SECTIONS": block.SECTIONS, "SURFACES": block.TILE_SURFACE,
            "MAGIC": block.HEADER, "COUNT": block.HEADER + 4, "COINS": block.HEADER + 6,
            "LENGTH": block.HEADER + 8, "TITLE": block.TITLE_AT, "GATE_X": block.GATE_X,
            "GATE_Y": block.GATE_Y, "GATE_ANGLE": block.GATE_ANGLE, "COIN_LIST": block.COINS, "MINI": block.MINI_COLOUR,
        }.items()},
        "BLOCK_PALETTE": block.PALETTE, "MAGIC_LOW": int.from_bytes(block.MAGIC[:2], "little"),
        "MAGIC_HIGH": int.from_bytes(block.MAGIC[2:], "little"),
        **{f"EFFECT_{effect.name}": effect.value for effect in Effect},
        "MINI_ROW": art_panel.MINI_ROW, "MINI_COLUMN": art_panel.MINI_COLUMN, "MINI_CELLS": art_panel.MINI_CELLS,
        "MINI_WORD": first | art_panel.MAP << 10,
        "TITLE_ROW": art_panel.TITLE_ROW, "TITLE_COLUMN": art_panel.TITLE_COLUMN, "TITLE_CELLS": block.TITLE,
        "DOT_X": art_panel.MINI_COLUMN * 8 - 7, "DOT_Y": row * 8 - 4 - 7,
        "LAP_X": 180, "LAP_Y": row * 8 + 24, "TIME_X": 172, "TIME_Y": row * 8 + 48,
        "SPEED_X": 180, "SPEED_Y": row * 8 + 72, "COINS_X": 222,
        "MESSAGE_X": 138, "MESSAGE_Y": row * 8 + 92, "MESSAGE_CELLS": 5,
        **{f"LOOK_{name}": look for name, look in looks.items()},
    }  # fmt: skip
    included = {
        **tables.small(),
        "letters.bin": struct.pack(
            "<64H", *(letters.get(chr(32 + k), letters[" "]) | art_panel.PANEL << 10 for k in range(64))
        ),
        "views.bin": struct.pack(f"<{len(views)}H", *views),
        "surfaces.inc": _surfaces(looks).encode(),
    }
    rom = bytearray(_assemble(source, params, included) + b"".join(banks)).ljust(SIZE, b"\0")
    id_at = ART_BANK * BANK + BUILD_ID - BANK
    rom[CHECKSUM] = bytes(4)
    build_id = zlib.crc32(rom)
    rom[id_at : id_at + 4] = struct.pack("<I", build_id)
    rom[CHECKSUM] = b"\xff\xff\0\0"
    total = sum(rom) & 0xFFFF
    rom[CHECKSUM] = struct.pack("<HH", total ^ 0xFFFF, total)
    return bytes(rom), build_id
