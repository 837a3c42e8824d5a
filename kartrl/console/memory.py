"""Named values in a console's memory, as stable-retro's data.json describes them."""

import json
import operator
import re
import sys
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from kartrl.errors import UserError
from kartrl.files import read_text

TYPE = re.compile("([|=]|<[>=]?|>[<=]?)([uidn])([1-8])")  # of a value in data.json
DIGITS = [(byte & 15) % 10 for byte in range(256)]
PAIRS = [(byte >> 4) % 10 * 10 + digit for byte, digit in enumerate(DIGITS)]


class Memory:
    """Addresses of named values in a console's memory, from a data.json (stable-retro's format).

    A type is a byte order (`|`, `=`, `<`, `>`; `<>` and `><`: halves in one order, the bytes in each in the other), a
    kind (u unsigned, i signed, d two decimal digits per byte, n one) and a number of bytes, 1 to 8. As in stable-retro,
    digits above 9 count modulo 10, and values wrap at 64 bits, signed. An optional `mask` is applied to the value.

    Args:
        file: the data.json; None: there are no names.
        sizes: of the blocks of memory in bytes, by first address on the console's bus, in increasing order.
        word: the blocks' bytes are in words of this many, each in reverse; 1: in order.

    Raises:
        UserError: the file cannot be read, or has an invalid address or type.
    """

    def __init__(self, file: Path | None, sizes: Mapping[int, int], word: int = 1) -> None:
        key = "info"
        try:
            info: dict[str, dict[str, Any]] = {} if file is None else json.loads(read_text(file))["info"]
            readers, addresses = {}, {}
            for name, place in info.items():
                key = f"info.{name}"
                readers[name] = _reader(place["type"], operator.index(place.get("mask", -1)))
                addresses[name] = operator.index(place["address"])
        except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            missing = f"{error} is missing" if isinstance(error, KeyError) else error
            raise UserError(f"{file}: {key}: cannot read the addresses of values in memory ({missing})") from error
        self._decoders = [(name, decode) for name, (_, decode) in readers.items() if decode is not None]
        self._places: dict[str, tuple[int, int, np.dtype[Any]]] = {}  # block and offset in it
        for name, (dtype, _) in readers.items():
            block = next((start for start, size in sizes.items() if start <= addresses[name] < start + size), None)
            if block is not None and addresses[name] + dtype.itemsize <= block + sizes[block]:
                self._places[name] = block, addresses[name] - block, dtype
        self.outside = tuple(name for name in info if name not in self._places)
        """Names of values that are not in the memory, and that are not read."""
        self._decoders = [each for each in self._decoders if each[0] in self._places]
        self._parts = [
            _Part({name: place[1:] for name, place in self._places.items() if place[0] == block}, block, word)
            for block in sorted({block for block, _, _ in self._places.values()})
        ]

    def __contains__(self, name: str) -> bool:
        """Whether there is a value of this name in the memory."""
        return name in self._places

    def read(self, blocks: Mapping[int, Any]) -> dict[str, int]:
        """Read all values from buffers with the blocks' contents."""
        values: dict[str, int] = {}
        for part in self._parts:
            part.read(blocks, values)
        for name, decode in self._decoders:
            values[name] = decode(values[name])
        return values

    def write(self, blocks: Mapping[int, Any], name: str, value: int) -> None:
        """Write a value of bytes in order to its block; not one of decimal digits, or with a mask."""
        block, offset, dtype = self._places[name]
        np.frombuffer(blocks[block], dtype, 1, offset)[0] = value


class _Part:
    """The values in one block.

    Args:
        places: their offsets in it, and dtypes.
        block: its first address.
        word: see `Memory`.
    """

    def __init__(self, places: Mapping[str, tuple[int, np.dtype[Any]]], block: int, word: int) -> None:
        self._names, self._block, self._bytes = tuple(places), block, None
        formats, offsets = [dtype for _, dtype in places.values()], [offset for offset, _ in places.values()]
        if word > 1:  # copy the bytes of the values only
            taken = [np.arange(offset, offset + dtype.itemsize) for offset, dtype in places.values()]
            self._bytes = np.concatenate(taken) ^ (word - 1)
            offsets = [*accumulate((dtype.itemsize for dtype in formats[:-1]), initial=0)]
        self._record = np.dtype({"names": [*self._names], "formats": formats, "offsets": offsets})

    def read(self, blocks: Mapping[int, Any], values: dict[str, int]) -> None:
        """Add the values to `values`, not decoded yet."""
        data = blocks[self._block]
        if self._bytes is not None:
            data = np.frombuffer(data, np.uint8)[self._bytes]
        values.update(zip(self._names, np.frombuffer(data, self._record, 1).item(), strict=True))


def _reader(kind: str, mask: int) -> tuple[np.dtype[Any], Callable[[Any], int] | None]:
    """The dtype that NumPy reads of a value of this type, and what makes the value of that; None: it is the value."""
    if (found := TYPE.fullmatch(kind)) is None:
        raise ValueError(f"invalid type {kind[:20]!r}; one is |u1, >u2 or <d4, for instance")
    order, letter, size = found[1], found[2], int(found[3])
    if letter in "ui" and size in (1, 2, 4, 8) and len(order) == 1:
        dtype = np.dtype(f"{order}i8" if size == 8 else kind)
        return dtype, None if mask == -1 else _signed(mask, 64).__and__
    places = _from_lowest(order, size)
    digits, base = {"d": (PAIRS, 100), "n": (DIGITS, 10)}.get(letter, (range(256), 256))

    def decode(data: bytes) -> int:
        value = sum(digits[data[place]] * base**power for power, place in enumerate(places))
        return _signed(_signed(value, 8 * size if letter == "i" else 64) & mask, 64)

    if size == 1:  # looked up, as this is read in each step
        return np.dtype(np.uint8), [decode(bytes([byte])) for byte in range(256)].__getitem__
    return np.dtype(f"V{size}"), decode


def _signed(value: int, bits: int) -> int:
    """The value as a signed integer of so many bits, which wraps."""
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def _from_lowest(order: str, size: int) -> list[int]:
    """The places of a value's bytes, the least significant first."""
    places, half = list(range(size)), size // 2
    native = "<" if sys.byteorder == "little" else ">"
    match order.replace("=", native):
        case ">":
            return places[::-1]
        case "<>":
            return places[:half][::-1] + places[half:][::-1]
        case "><":
            return places[half:] + places[:half]
    return places
