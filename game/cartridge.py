"""Puts code, tables, art and circuits together into the ROM."""

import json
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import art_objects
import art_panel
import numpy as np
import palette as pal
import tables
import tiles
from track import Track

BANK = 0x8000
MATRIX_BANK, ART_BANK, CIRCUIT_BANK = 1, 5, 6
# within the bank of the shared art
PALETTE, SIZES, BUILD_ID, PANEL_MAP, PANEL_TILES = 0xC000, 0xC200, 0xC300, 0xC400, 0xD400
# within a circuit's second bank; the first holds 16 KiB of tile numbers, then 16 KiB of tiles
SECTIONS, GATE_X, GATE_Y, GATE_ANGLE, TITLE, MINI_MAP, MINI_TILES = 0xC000, 0xC010, 0xC090, 0xC110, 0xC150, 0xC200, 0xC400
CHECKSUM = slice(0x7FDC, 0x7FE0)
LAPS = 5
ID_ADDRESS = "7E1E08"


def _place(parts: dict[int, bytes]) -> bytes:
    """A bank with each part at its address."""
    out = bytearray(BANK)
    end = BANK
    for address, data in sorted(parts.items()):
        if address < end or address + len(data) > 2 * BANK:
            raise ValueError(f"no room for {len(data)} bytes at {address:04X}")
        out[address - BANK : address - BANK + len(data)] = data
        end = address + len(data)
    return bytes(out)


def _circuit(track: Track, first_tile: int, letters: dict[str, int]) -> tuple[list[bytes], int]:
    """A circuit's two banks, and how many tiles its small map has."""
    outside = np.asarray(pal.OUTSIDE).reshape(64)
    chosen, numbers = tiles.reduce(tiles.cut(track.picture), pal.GROUND, outside)
    ground = _place({0x8000: numbers.tobytes(), 0xC000: chosen.tobytes()})
    art, words = art_panel.mini(track.mini, first_tile)
    title = [letters[c] | art_panel.PANEL << 10 for c in f"{track.title:<{art_panel.TITLE_CELLS}}"]
    x, y, angle = zip(*track.gates, strict=True)
    data = _place(
        {
            0x8000: track.cells.tobytes(),
            SECTIONS: struct.pack("<H", track.sections),
            GATE_X: struct.pack(f"<{len(x)}H", *x),
            GATE_Y: struct.pack(f"<{len(y)}H", *y),
            GATE_ANGLE: bytes(angle),
            TITLE: struct.pack(f"<{len(title)}H", *title),
            MINI_MAP: struct.pack(f"<{len(words)}H", *words),
            MINI_TILES: art,
        }
    )
    return [ground, data], len(art) // 32


def _assemble(source: Path, params: dict[str, int]) -> bytes:
    """Bank 0 from the assembly sources."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "params.inc").write_text("".join(f"{key} = {value}\n" for key, value in params.items()))
        for table, data in tables.small().items():
            (work / table).write_bytes(data)
        objects = []
        for file in sorted((source / "src").glob("*.s")):
            objects.append(str(work / f"{file.stem}.o"))
            paths = ["-I", str(work), "-I", str(source / "src"), "--bin-include-dir", str(work)]
            subprocess.run(["ca65", "--cpu", "65816", *paths, "-o", objects[-1], str(file)], check=True)
        subprocess.run(["ld65", "-C", str(source / "lorom.cfg"), "-o", str(work / "bank0"), *objects], check=True)
        return (work / "bank0").read_bytes()


def build(source: Path, tracks: list[Track]) -> tuple[bytes, dict]:
    """The ROM and what circuits.json says of it."""
    shared, layer, letters = art_panel.panel()
    sheet, looks = art_objects.sheet()
    first = len(shared) // 32
    made = [_circuit(track, first, letters) for track in tracks]
    mini_tiles = max(count for _, count in made)
    if first + mini_tiles > art_panel.LIMIT:
        raise ValueError(f"{first} + {mini_tiles} tiles: the panel has {art_panel.LIMIT}")
    colours = {**pal.GROUND, **art_panel.COLOURS, **art_objects.COLOURS}
    # two bits a sprite: x beyond 255 (never), and size; the kart, its shadow and the sign are large
    sizes = bytes([0b1010, 0b1000]) + bytes(30)
    art = _place(
        {
            0x8000: b"".join(tiles.packed(tile) for tile in tiles.cut(sheet)),
            PALETTE: tiles.palette(colours),
            SIZES: sizes,
            PANEL_MAP: struct.pack("<2048H", *layer),
            PANEL_TILES: shared,
        }
    )
    banks = [_place({0x8000: rows}) for rows in tables.matrices()] + [art] + [bank for pair, _ in made for bank in pair]
    size = 1 << (len(banks) * BANK).bit_length()
    row = art_panel.PANEL_ROW
    params = {
        "ROM_SIZE_CODE": size.bit_length() - 11,
        "MATRIX_BANK": MATRIX_BANK | 0x80, "CIRCUIT_BANK": CIRCUIT_BANK | 0x80, "CIRCUITS": len(tracks),
        "BASE_LINE": tables.BASE_LINE, "BUILD_ID_ROM": (ART_BANK | 0x80) << 16 | BUILD_ID,
        "ART_BANK": ART_BANK | 0x80, "OBJ_BANK": ART_BANK | 0x80, "ART_OBJ": 0x8000, "ART_PALETTE": PALETTE,
        "ART_SIZES": (ART_BANK | 0x80) << 16 | SIZES, "ART_MAP": PANEL_MAP, "ART_BG": PANEL_TILES, "ART_BG_SIZE": len(shared),
        "DATA_SECTIONS": SECTIONS, "DATA_GATE_X": GATE_X, "DATA_GATE_Y": GATE_Y, "DATA_GATE_ANGLE": GATE_ANGLE,
        "DATA_TITLE": TITLE, "DATA_MINI_MAP": MINI_MAP, "DATA_MINI_TILES": MINI_TILES, "MINI_TILES": mini_tiles,
        "MINI_ROW": art_panel.MINI_ROW, "MINI_COLUMN": art_panel.MINI_COLUMN, "MINI_CELLS": art_panel.MINI_CELLS,
        "TITLE_ROW": art_panel.TITLE_ROW, "TITLE_COLUMN": art_panel.TITLE_COLUMN, "TITLE_CELLS": art_panel.TITLE_CELLS,
        "DOT_X": art_panel.MINI_COLUMN * 8 - 7, "DOT_Y": row * 8 - 4 - 7,
        "LAP_X": 180, "LAP_Y": row * 8 + 24, "TIME_X": 172, "TIME_Y": row * 8 + 48, "SPEED_X": 180, "SPEED_Y": row * 8 + 72,
        "MESSAGE_X": 138, "MESSAGE_Y": row * 8 + 92, "MESSAGE_CELLS": 5,
        **{f"LOOK_{name}": look for name, look in looks.items()},
    }  # fmt: skip
    rom = bytearray(_assemble(source, params) + b"".join(banks)).ljust(size, b"\0")
    id_at = ART_BANK * BANK + BUILD_ID - BANK
    rom[CHECKSUM] = bytes(4)
    build_id = zlib.crc32(rom)
    rom[id_at : id_at + 4] = struct.pack("<I", build_id)
    rom[CHECKSUM] = b"\xff\xff\0\0"
    total = sum(rom) & 0xFFFF
    rom[CHECKSUM] = struct.pack("<HH", total ^ 0xFFFF, total)
    return bytes(rom), {
        "build_id": build_id,
        "build_id_address": ID_ADDRESS,
        "laps": LAPS,
        "circuits": {track.name: _described(track, k) for k, track in enumerate(tracks)},
    }


def _described(track: Track, index: int) -> dict:
    ground = (CIRCUIT_BANK + 2 * index) * BANK
    return {
        "index": index,
        "title": track.title,
        "sections": track.sections,
        "length_px": track.length,
        "map": {"tilemap": ground, "tiles": ground + 0x4000, "palette": ART_BANK * BANK + PALETTE - BANK},
        "start": list(track.gates[0]),
        "gates": [list(gate) for gate in track.gates],
    }


def written(facts: dict) -> str:
    """circuits.json's text: a line for each circuit's gates."""
    text = json.dumps(facts, indent=1)
    for name, circuit in facts["circuits"].items():
        for key in ("gates", "start"):
            text = text.replace(_indented(circuit[key], 4), json.dumps(circuit[key]))
        assert name in text
    return text + "\n"


def _indented(value: list, depth: int) -> str:
    return json.dumps(value, indent=1).replace("\n", "\n" + " " * (depth - 1))
