"""`scalars.csv`, a run's metrics as text: the one place that knows its columns.

A run that was killed may have left half a line at the end; readers pass over it.
"""

import contextlib
import csv
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

from kartrl.files import whole_file

NAME = "scalars.csv"  # in the run's folder
TAIL = 1 << 16  # bytes at the end of a file that are looked at for the newest step


class Row(NamedTuple):
    """One value; the file's columns."""

    seconds: float  # of training
    agent_steps: int
    tag: str
    value: float


class ScalarsTable:
    """Appends to `scalars.csv`. It may be closed after a failed write and opened again; its clock goes on.

    Args:
        run_folder: holds the file.
        first_step: rows of later agent steps, from a run that went further than the checkpoint that is now resumed,
            are removed when the file is first opened, and the clock goes on from the last row that stays.
    """

    def __init__(self, run_folder: Path, first_step: int) -> None:
        self._path = run_folder / NAME
        self._first_step: int | None = first_step  # None once later rows were removed
        self._file: TextIO | None = None
        self._seconds = 0.0  # what the clock showed at the start
        self._start = time.monotonic()

    def open(self) -> None:
        """Open the file for more rows.

        Raises:
            OSError: it cannot be read or written.
        """
        self.close()
        with whole_file(self._path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Row._fields)
            for row in read(self._path.parent):
                if self._first_step is None or row.agent_steps <= self._first_step:
                    writer.writerow(_cells(row))
                    if self._first_step is not None:
                        self._seconds = max(self._seconds, row.seconds)
        self._first_step = None
        self._file = self._path.open("a", encoding="utf-8", newline="")

    def write(self, agent_steps: int, values: Mapping[str, float]) -> None:
        """Append tag -> value, with the time.

        Raises:
            OSError: it cannot be written.
        """
        assert self._file is not None, "open() comes first"
        seconds = self._seconds + time.monotonic() - self._start
        rows = (Row(seconds, agent_steps, tag, value) for tag, value in values.items())
        csv.writer(self._file, lineterminator="\n").writerows(map(_cells, rows))

    def flush(self) -> None:
        """Hand what was written to the operating system.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file; what cannot be written any more is lost."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def read(run_folder: Path) -> Iterator[Row]:
    """The whole rows of a run's `scalars.csv`, in order; none where there is no such file yet.

    Raises:
        OSError: it cannot be read.
    """
    if (run_folder / NAME).exists():
        with (run_folder / NAME).open(encoding="utf-8", errors="replace", newline="") as lines:
            for line in lines:
                if (row := _row(line)) is not None:
                    yield row


def values(run_folder: Path, tag: str) -> list[float]:
    """The values of one tag, in order."""
    return [row.value for row in read(run_folder) if row.tag == tag]


def last_step(run_folder: Path) -> int:
    """Agent steps that a run has come to, by the end of its file; 0 where it has no row yet."""
    try:
        with (run_folder / NAME).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().decode("utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        return 0
    # without the first: the header, or half a line; the most, as evaluations are of earlier steps than their neighbours
    return max((row.agent_steps for row in map(_row, lines[1:]) if row is not None), default=0)


def _cells(row: Row) -> tuple[str, int, str, str]:
    return f"{row.seconds:.2f}", row.agent_steps, row.tag, f"{row.value:.8g}"


def _row(line: str) -> Row | None:
    """The row of a line; None where it is the header, not whole, or damaged."""
    if line.endswith("\n"):
        with contextlib.suppress(ValueError, csv.Error):
            seconds, agent_steps, tag, value = next(csv.reader([line]))
            return Row(float(seconds), int(agent_steps), tag, float(value))
    return None
