"""Leaves out, in a copy of a core, what costs half of a frame's time and training does not need.

The cores have no options for it, so some of their instructions are changed, and variables are written that they do not
offer. They are found by their names in the core's table of symbols. A core without these names or instructions, as on
other systems, stays as it is, and is slower.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_void_p
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

RETURN = b"\xc3"


class Link(NamedTuple):
    """Four bytes in `Change.new` that hold the distance from their end to a symbol, as in most operands of x86-64."""

    place: int  # of the bytes
    symbol: bytes
    beyond: int = 0  # bytes behind the symbol


class Change(NamedTuple):
    """Instructions of x86-64, `offset` bytes behind the beginning of a function."""

    function: bytes
    offset: int
    old: bytes
    new: bytes
    links: tuple[Link, ...] = ()

    def linked(self, addresses: Mapping[bytes, int]) -> bytes:
        """What is written."""
        new = bytearray(self.new)
        for place, symbol, beyond in self.links:
            here = addresses[self.function] + self.offset + place + 4
            new[place : place + 4] = (addresses[symbol] + beyond - here).to_bytes(4, "little", signed=True)
        return bytes(new)


class Shortcuts(Protocol):
    """The shortcuts of a core that `shorten` has changed, and that is loaded."""

    @property
    def asks(self) -> bool:
        """Whether the core still calls Python in each frame."""

    @property
    def input_state(self) -> int | None:
        """Address of the function that it asks for buttons; None: it does not ask."""

    @property
    def hides(self) -> bool:
        """Whether the next frame takes less time if it is not drawn."""

    def prepare(self, pressed: int, rows: int) -> None:
        """Before each frame.

        Args:
            pressed: buttons, see `Emulator.pressed`.
            rows: rows of the screen that need to be right.
        """

    def finish(self) -> None:
        """After each frame."""


class Plan(NamedTuple):
    """Where in a core the shortcuts are."""

    changes: tuple[tuple[int, bytes], ...]  # offset in its file, and what is written there
    addresses: Mapping[bytes, int]  # of the symbols, in memory from where the core is loaded
    make: Callable[[Callable[[bytes], int]], Shortcuts]  # of what gives a symbol's address

    def shortcuts(self, library: ctypes.CDLL) -> Shortcuts:
        """Those of a loaded core."""
        first = (c_void_p.from_buffer(library.retro_run).value or 0) - self.addresses[START]
        return self.make(lambda symbol: first + self.addresses[symbol])


class Kind(NamedTuple):
    """The shortcuts of one emulator."""

    changes: tuple[Change, ...]
    variables: tuple[bytes, ...]  # symbols of its variables that `changes` and `make` use
    make: Callable[[Callable[[bytes], int]], Shortcuts]

    @property
    def names(self) -> tuple[bytes, ...]:
        """All symbols."""
        return (*dict.fromkeys(change.function for change in self.changes), *self.variables, START)


START = b"retro_run"
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


def find(core: Path, kind: Kind) -> Plan | None:
    """Find the shortcuts in a core; None if they are not all there."""
    data = core.read_bytes()
    found = _symbols(data, kind.names)
    if not all(found.get(name) for name in kind.names):
        return None
    addresses = {name: places[0][1] for name, places in found.items()}
    changes = [
        (place + change.offset, change.linked(addresses))
        for change in kind.changes
        for place, _ in found[change.function]
        if data.startswith(change.old, place + change.offset)
    ]
    return Plan(tuple(changes), addresses, kind.make) if len(changes) == len(kind.changes) else None


def shorten(path: str, plan: Plan) -> None:
    """Change the file `path`, a copy of the core that is not loaded yet."""
    with open(path, "r+b") as file:
        for place, new in plan.changes:
            file.seek(place)
            file.write(new)


def _symbols(data: bytes, names: Sequence[bytes]) -> dict[bytes, list[tuple[int, int]]]:
    """Offset in the file and address in memory of each name; local functions may share a name."""
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
        for name in names:
            place = data.find(b"\0" + name + b"\0", strings) + 1 - strings
            for symbol in symbols[symbols["name"] == place]:
                section, address = sections[symbol["section"]], int(symbol["value"])
                found.setdefault(name, []).append((address - int(section["address"]) + int(section["offset"]), address))
    return found
