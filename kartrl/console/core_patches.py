"""Leaves out, in a copy of snes9x, what costs half of a step's time and the bundled game does not need.

The core has no options for it, so some of its instructions are changed, and variables are written that it does not
offer. They are found by their names in the core's table of symbols. A core without these names or instructions, as on
other systems, stays as it is, and is slower.
"""

import ctypes
import functools
from collections.abc import Mapping
from ctypes import c_uint16, c_uint32, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np

RETURN = b"\xc3"


class Change(NamedTuple):
    """Instructions of x86-64, `offset` bytes behind the beginning of a function."""

    function: bytes
    offset: int
    old: bytes
    new: bytes


CHANGES = (
    # The audio processing unit is not emulated. A game notices only if it waits for it, as each does when it boots.
    Change(b"_Z13S9xAPUExecutev", 0, b"\x53", RETURN),
    # WAI lets the time until the next event of a screen line pass at once, instead of 12 cycles of a frame's 357,000:
    # "mov edx, [rbx + 0x40]" for "lea edx, [rax + 12]".
    Change(b"_ZL4OpCBv", 0x14, bytes.fromhex("8b4304c64344018d500c"), bytes.fromhex("8b4304c64344018b5340")),
    # No questions for each of 24 buttons in every frame: `Shortcuts.prepare` sets them.
    Change(b"_Z15S9xReportButtonjb", 0, b"\x41\x56", RETURN),
    # Unchanged: it shows where the size of what is cleared is, mov edx, [GFX + 0x24].
    Change(b"_Z21S9xStartScreenRefreshv", 0xAA, b"\x8b\x55\x24", b"\x8b\x55\x24"),
)
JOYPAD = b"_ZL6joypad"  # a variable that begins with the first joypad's buttons
DOWN_RIGHT = 1 << 5 | 1 << 7  # UP and LEFT are one bit lower
GRAPHICS, DEPTHS = b"GFX", 0x24  # a variable, and where in it the size of the depth buffer is, in bytes
DEPTHS_PER_ROW = 512
START = b"retro_run"
NAMES = (*(change.function for change in CHANGES), JOYPAD, GRAPHICS, START)
# elf.h, 64 bits, little-endian
MAGIC, X86_64, SYMBOL_TABLE = b"\x7fELF\x02\x01", 62, 2
HEADER = np.dtype(
    {"names": ["machine", "sections", "number"], "formats": ["<u2", "<u8", "<u2"], "offsets": [0x12, 0x28, 0x3C]}
)
SECTION = np.dtype(
    {
        "names": ["type", "address", "offset", "size", "link"],
        "formats": ["<u4", "<u8", "<u8", "<u8", "<u4"],
        "offsets": [4, 16, 24, 32, 40],
        "itemsize": 64,
    }
)
SYMBOL = np.dtype([("name", "<u4"), ("kind", "<u2"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])


class Plan(NamedTuple):
    """Where in a core the shortcuts are."""

    changes: tuple[tuple[int, bytes], ...]  # offset in its file, and what is written there
    addresses: Mapping[bytes, int]  # of `NAMES`, in memory from where the core is loaded


class Shortcuts:
    """The shortcuts of a core that `shorten` has changed, and that is loaded."""

    def __init__(self, plan: Plan, library: ctypes.CDLL) -> None:
        place = c_void_p.from_buffer(library.retro_run).value or 0
        first = place - plan.addresses[START]
        self._joypad = c_uint16.from_address(first + plan.addresses[JOYPAD])
        self._depths = c_uint32.from_address(first + plan.addresses[GRAPHICS] + DEPTHS)

    def prepare(self, pressed: int, rows: int) -> None:
        """Before each frame.

        Args:
            pressed: buttons of the first joypad, bit i for `libretro.BUTTONS[i]`.
            rows: rows of the screen that are drawn: the core clears the depths of no others.
        """
        self._joypad.value = _held(pressed)
        self._depths.value = DEPTHS_PER_ROW * rows


@functools.cache
def _held(pressed: int) -> int:
    """Buttons as the console has them, the first one in the highest bit."""
    pressed &= ~((pressed & DOWN_RIGHT) >> 1)  # as the core does: of opposite directions the second counts
    return int(f"{pressed:016b}"[::-1], 2)


@functools.cache
def find(core: Path) -> Plan | None:
    """Find the shortcuts in a core; None if they are not all there."""
    data = core.read_bytes()
    found = _symbols(data)
    changes = [
        (place + change.offset, change.new)
        for change in CHANGES
        for place, _ in found.get(change.function, ())
        if data.startswith(change.old, place + change.offset)
    ]
    if len(changes) != len(CHANGES) or not all(found.get(name) for name in NAMES):
        return None
    return Plan(tuple(changes), {name: found[name][0][1] for name in NAMES})


def shorten(path: str, plan: Plan) -> None:
    """Change the file `path`, a copy of the core that is not loaded yet."""
    with open(path, "r+b") as file:
        for place, new in plan.changes:
            file.seek(place)
            file.write(new)


def _symbols(data: bytes) -> dict[bytes, list[tuple[int, int]]]:
    """Offset in the file and address in memory of each of `NAMES`; local functions may share a name."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    if not data.startswith(MAGIC):
        return found
    machine, start, number = np.frombuffer(data, HEADER, 1)[0]
    if machine != X86_64:
        return found
    sections = np.frombuffer(data, SECTION, int(number), int(start))
    for table in sections[sections["type"] == SYMBOL_TABLE]:
        symbols = np.frombuffer(data, SYMBOL, int(table["size"]) // SYMBOL.itemsize, int(table["offset"]))
        strings = int(sections[table["link"]]["offset"])
        for name in NAMES:
            place = data.find(b"\0" + name + b"\0", strings) + 1 - strings
            for symbol in symbols[symbols["name"] == place]:
                section, address = sections[symbol["section"]], int(symbol["value"])
                found.setdefault(name, []).append((address - int(section["address"]) + int(section["offset"]), address))
    return found
