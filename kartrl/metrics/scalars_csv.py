"""`scalars.csv`, a run's metrics as text: the only place that knows its columns."""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kartrl.metrics import csv_table
from kartrl.metrics.csv_table import CsvTable

NAME = "scalars.csv"  # in the run's folder
TAIL = 1 << 16  # bytes read from the end of a file to find the newest step


class Row(NamedTuple):
    """One value; the file's columns."""

    seconds: float  # of training
    agent_steps: int
    tag: str
    value: float


class ScalarsTable(CsvTable[Row]):
    """Appends to `scalars.csv`: see `CsvTable`."""

    def __init__(self, run_folder: Path, first_step: int, first_seconds: float = math.inf) -> None:
        super().__init__(run_folder / NAME, Row, first_step, first_seconds)

    def write(self, seconds: float, agent_steps: int, values: Mapping[str, float]) -> None:
        """Append tag -> value.

        Raises:
            OSError: it cannot be written.
        """
        self.append(Row(seconds, agent_steps, tag, float(value)) for tag, value in values.items())


def read(run_folder: Path) -> Iterator[Row]:
    """The complete rows of a run's `scalars.csv`, in order; none if there is no such file yet.

    Raises:
        OSError: it cannot be read.
    """
    return csv_table.read(run_folder / NAME, Row)


def values(run_folder: Path, tag: str) -> list[float]:
    """The values of one tag, in order."""
    return [row.value for row in read(run_folder) if row.tag == tag]


def come_to(run_folder: Path) -> tuple[float, int]:
    """Seconds of training and agent steps reached by a run, by the end of its file; 0 if it has no row yet."""
    try:
        with (run_folder / NAME).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().decode("utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        return 0.0, 0
    # skip the first line: header or partial; take the maximum, as evaluations have earlier steps than their neighbours
    rows = [row for line in lines[1:] if (row := csv_table.parse(line, Row)) is not None]
    return max((row.seconds for row in rows), default=0.0), max((row.agent_steps for row in rows), default=0)
