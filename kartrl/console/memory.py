"""Named values in a console's memory, as stable-retro's data.json describes them."""

import json
import operator
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kartrl.errors import UserError

TYPE = re.compile("([|=]|<[>=]?|>[<=]?)?([uidn])([1-8])")  # of a value in data.json
DIGITS = [(byte & 15) % 10 for byte in range(256)]
PAIRS = [(byte >> 4) % 10 * 10 + digit for byte, digit in enumerate(DIGITS)]


class Memory:
    """Addresses of named values in a console's memory, from a data.json (stable-retro's format).

    A type is a byte order (`|`, `=`, `<`, `>`; `<>` and `><`: halves in one order, the bytes in each in the other), a
    kind (u unsigned, i signed, d two decimal digits per byte, n one) and a number of bytes, 1 to 8. As in stable-retro,
    digits above 9 count modulo 10, and values wrap at 64 bits, signed. An optional `mask` is applied to the value.

    Args:
        file: the data.json.
        start: address of the memory on the console's bus.
        size: of the memory in bytes.

    Raises:
        UserError: the file cannot be read, or has an invalid address or type.
    """

    def __init__(self, file: Path, start: int, size: int) -> None:
        self.start = start
        try:
            info: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["info"]
            readers = {
                name: _reader(place["type"], operator.index(place.get("mask", -1))) for name, place in info.items()
            }
            self._offsets = {name: operator.index(place["address"]) - start for name, place in info.items()}
            self._types = {name: kind for name, (kind, _) in readers.items()}
            self._decoders = [(name, decode) for name, (_, decode) in readers.items() if decode is not None]
            for name, offset in self._offsets.items():
                if not 0 <= offset <= size - self._types[name].itemsize:
                    raise ValueError(f"{name} is not in the working memory")
            self._record = np.dtype(
                {"names": [*info], "formats": [*self._types.values()], "offsets": [*self._offsets.values()]}
            )
        except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{file}: cannot read the addresses of values in memory ({error})") from error

    def __contains__(self, name: str) -> bool:
        """Whether there is a value of this name."""
        return name in self._offsets

    def read(self, ram: Any) -> dict[str, int]:
        """Read all values from a buffer with the memory's contents."""
        values = dict(zip(self._offsets, np.frombuffer(ram, self._record, 1).item(), strict=True))
        for name, decode in self._decoders:
            values[name] = decode(values[name])
        return values

    def write(self, ram: Any, name: str, value: int) -> None:
        """Write a value to a buffer with the memory's contents; not one of decimal digits, or with a mask."""
        np.frombuffer(ram, self._types[name], 1, self._offsets[name])[0] = value


def _reader(kind: str, mask: int) -> tuple[np.dtype[Any], Callable[[Any], int] | None]:
    """The dtype that NumPy reads of a value of this type, and what makes the value of that; None: it is the value."""
    if (found := TYPE.fullmatch(kind)) is None:
        raise ValueError(f"invalid type {kind[:20]!r}; one is |u1, >u2 or <d4, for instance")
    order, letter, size = found[1] or "|", found[2], int(found[3])
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
