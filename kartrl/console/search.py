"""Finds values in a console's memory, as cheat finders do: by what they are, and by how they have changed."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
CHANGES: dict[str, Callable[[Any], Any]] = {
    "changed": lambda change: change != 0,
    "same": lambda change: change == 0,
    "up": lambda change: change > 0,
    "down": lambda change: change < 0,
}  # since the last search
KINDS = ("u1", "d1", "u2", "d2", "n2", "d3", "n3", "u4", "d4", "n4", "n5", "n6")
TYPES = [f"{order}{kind}" for kind in KINDS for order in ("|" if kind[1] == "1" else "<>")]  # see `Memory`


class Found(NamedTuple):
    """A value that may be the one sought."""

    address: int
    type: str
    value: int


class Search:
    """The values in a console's memory that have been as searched for.

    Args:
        word: the memory is in words of this many bytes, each in reverse; 1: in order.
    """

    def __init__(self, word: int = 1) -> None:
        self._word = word
        self._left: dict[str, tuple[Numbers, Numbers]] = {}  # by type: places of values, and what they were
        self._addresses: Numbers = np.zeros(0, np.int64)

    def filter(self, blocks: Mapping[int, Any], fits: Callable[[Numbers, Numbers], Any]) -> int:
        """Keep the values that fit; returns how many there are.

        Args:
            blocks: the memory, by first address.
            fits: of values, and of what they were at the last search, at first the same; gives bool, of their shape.
        """
        self._addresses = np.concatenate([start + np.arange(len(block)) for start, block in blocks.items()])
        memory = [np.frombuffer(block, np.uint8) for block in blocks.values()]
        memory = [data[np.arange(len(data)) ^ (self._word - 1)] for data in memory]
        for name in TYPES:
            read = [_values(data, name) for data in memory]
            values, valid = (np.concatenate(parts) for parts in zip(*read, strict=True))
            places, before = self._left.get(name, (np.flatnonzero(valid), values[valid]))
            fit = valid[places] & fits(values[places], before)
            self._left[name] = places[fit], values[places[fit]]
        return sum(len(places) for places, _ in self._left.values())

    def found(self, most: int) -> list[Found]:
        """The values that are left, of the shortest types first, at most so many."""
        left = [
            Found(int(self._addresses[place]), name, int(value))
            for name, (places, values) in self._left.items()
            for place, value in zip(places[:most], values[:most], strict=True)
        ]
        return left[:most]


def _values(data: npt.NDArray[np.uint8], name: str) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The value of a type that begins at each byte, and whether there is one: all bytes are there, and are digits."""
    order, kind, size = name[0], name[1], int(name[2])
    numbers, digits = data.astype(np.int64), np.ones(len(data), bool)
    if kind == "d":
        numbers, digits = (numbers >> 4) * 10 + (numbers & 15), (numbers >> 4 <= 9) & (numbers & 15 <= 9)
    elif kind == "n":
        digits = numbers <= 9
    base = {"u": 256, "d": 100, "n": 10}[kind]
    values, valid = np.zeros_like(numbers), np.zeros(len(data), bool)
    last = len(data) - size + 1
    if last > 0:
        for part in range(size) if order != "<" else reversed(range(size)):
            values[:last] = values[:last] * base + numbers[part : part + last]
        valid[:last] = np.all([digits[part : part + last] for part in range(size)], axis=0)
    return values, valid
