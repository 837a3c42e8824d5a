"""A run's table as a CSV file: rows are tuples that begin with the seconds of training and the agent steps.

A run that was killed may have left a partial line at the end; readers skip it.
"""

import contextlib
import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

from kartrl.files import whole_file

Row = TypeVar("Row", bound=NamedTuple)


class CsvTable(Generic[Row]):
    """Appends to a file. It may be closed after a failed write and opened again.

    Args:
        row_type: a named tuple of numbers and strings, whose first fields are `seconds` and `agent_steps`.
        first_step: rows of later agent steps, from a run that went further than the checkpoint being resumed, are
            removed when the file is first opened.
        first_seconds: likewise, rows of later seconds of training.
    """

    def __init__(self, path: Path, row_type: type[Row], first_step: int, first_seconds: float = math.inf) -> None:
        self._path, self._type = path, row_type
        self._first: tuple[int, float] | None = first_step, round(first_seconds, 2)  # None once they are removed
        self._file: TextIO | None = None

    def open(self) -> None:
        """Open the file for appending.

        Raises:
            OSError: it cannot be read or written.
        """
        self.close()
        with whole_file(self._path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self._type._fields)
            for row in read(self._path, self._type):
                seconds, agent_steps = row[:2]
                if self._first is None or (agent_steps <= self._first[0] and seconds <= self._first[1]):
                    writer.writerow(_cells(row))
        self._first = None
        self._file = self._path.open("a", encoding="utf-8", newline="")

    def append(self, rows: Iterable[Row]) -> None:
        """Append these rows.

        Raises:
            OSError: they cannot be written.
        """
        assert self._file is not None, "call open() first"
        csv.writer(self._file, lineterminator="\n").writerows(map(_cells, rows))

    def flush(self) -> None:
        """Flush buffered data to the operating system.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file; data that can no longer be written is lost."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def read(path: Path, row_type: type[Row]) -> Iterator[Row]:
    """The complete rows of a file, in order; none if there is no such file yet.

    Raises:
        OSError: it cannot be read.
    """
    if path.exists():
        with path.open(encoding="utf-8", errors="replace", newline="") as lines:
            for line in lines:
                if (row := parse(line, row_type)) is not None:
                    yield row


def parse(line: str, row_type: type[Row]) -> Row | None:
    """Parse a line; None if it is the header, incomplete or damaged."""
    if line.endswith("\n"):
        with contextlib.suppress(ValueError, csv.Error):
            types = row_type.__annotations__.values()
            return row_type(*(kind(cell) for kind, cell in zip(types, next(csv.reader([line])), strict=True)))
    return None


def _cells(row: tuple[Any, ...]) -> list[Any]:
    seconds, *rest = row
    return [f"{seconds:.2f}", *(f"{value:.8g}" if isinstance(value, float) else value for value in rest)]
