"""Stops the sound processors in a copy of snes9x: nobody hears training, and they take a quarter of a step's time.

The core has no option for it, so the function that lets them catch up with the console's CPU (`S9xAPUExecute`) is
replaced by one that returns at once. A game notices only if it waits for their answers, as each does when it boots.
"""

import functools
from pathlib import Path

import numpy as np

FUNCTION = b"_Z13S9xAPUExecutev"
RETURN = b"\xc3"  # the instruction, of x86-64
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


def stop_sound(library: str, core: Path) -> bool:
    """Change `library`, a file that is a copy of `core` and not loaded yet.

    Returns:
        False, and nothing is changed, if this system's core has no such function in its table of symbols.
    """
    place = _place(core)
    if place is not None:
        with open(library, "r+b") as file:
            file.seek(place)
            file.write(RETURN)
    return place is not None


@functools.cache
def _place(core: Path) -> int | None:
    """Where in the core's file the function begins."""
    data = core.read_bytes()
    if not data.startswith(MAGIC):
        return None
    machine, start, number = np.frombuffer(data, HEADER, 1)[0]
    if machine != X86_64:
        return None
    sections = np.frombuffer(data, SECTION, int(number), int(start))
    for table in sections[sections["type"] == SYMBOL_TABLE]:
        symbols = np.frombuffer(data, SYMBOL, int(table["size"]) // SYMBOL.itemsize, int(table["offset"]))
        names = sections[table["link"]]
        name = data.find(b"\0" + FUNCTION + b"\0", int(names["offset"])) + 1 - int(names["offset"])
        for symbol in symbols[symbols["name"] == name]:
            section = sections[symbol["section"]]
            return int(symbol["value"] - section["address"] + section["offset"])
    return None
