"""Metric sinks: an event file for TensorBoard, and `scalars.csv`."""

import contextlib
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

import numpy as np

from kartrl.metrics.event_writer import EventWriter

COLUMNS = ["seconds", "agent_steps", "tag", "value"]
RETRY_SECONDS = 60.0  # pause after a failed write


class Sinks:
    """Writes the same scalars to both files.

    A full disk or a read-only folder loses data but never ends the process: it is reported once on stderr, and
    retried every minute.

    Args:
        run_folder: folder of both files.
        first_step: agent steps of the checkpoint that is resumed; later data of existing files is discarded.
    """

    def __init__(self, run_folder: Path, first_step: int) -> None:
        self._folder = run_folder
        self._first_step: int | None = first_step  # None after existing files have been truncated
        self._events: EventWriter | None = None
        self._table: TextIO | None = None
        self._seconds = 0.0  # clock of the CSV at the start
        self._start = time.monotonic()
        self._retry_at = 0.0
        self._warned = False

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write tag -> value to both files."""

        def write(events: EventWriter, table: TextIO) -> None:
            seconds = f"{self._seconds + time.monotonic() - self._start:.2f}"
            rows = ((seconds, step, tag, f"{value:.8g}") for tag, value in values.items())
            csv.writer(table, lineterminator="\n").writerows(rows)
            events.scalars(step, values)

        if values:
            self._try(write)

    def histograms(self, step: int, values: Mapping[str, np.ndarray]) -> None:
        """Write tag -> float [any] to the event file."""

        def write(events: EventWriter, table: TextIO) -> None:
            for tag, array in values.items():
                events.histogram(step, tag, array)

        self._try(write)

    def flush(self) -> None:
        """Flush buffered data to the operating system."""

        def write(events: EventWriter, table: TextIO) -> None:
            events.flush()
            table.flush()

        self._try(write)

    def close(self) -> None:
        """Flush and close both files."""
        self.flush()
        self._drop()

    def _try(self, write: Callable[[EventWriter, TextIO], None]) -> None:
        if time.monotonic() < self._retry_at:
            return
        try:
            write(*self._open())
        except OSError as error:
            self._drop()
            self._retry_at = time.monotonic() + RETRY_SECONDS
            if not self._warned:
                self._warned = True
                reason = error.strerror or str(error)
                print(
                    f"kartrl: metrics are not written to {self._folder} ({reason}); training continues",
                    file=sys.stderr,
                    flush=True,
                )

    def _open(self) -> tuple[EventWriter, TextIO]:
        if self._events is None or self._table is None:
            self._drop()  # one may be open if the other failed to open
            self._folder.mkdir(parents=True, exist_ok=True)
            self._table = self._open_table(self._folder / "scalars.csv")
            self._events = EventWriter(self._folder, None if self._first_step is None else self._first_step + 1)
            self._first_step = None
        return self._events, self._table

    def _open_table(self, path: Path) -> TextIO:
        """Open `scalars.csv` for appending, keeping its complete rows up to the first step."""
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            with temporary.open("w", encoding="utf-8", newline="") as new:
                writer = csv.writer(new, lineterminator="\n")
                writer.writerow(COLUMNS)
                for row in _rows(path):
                    if self._first_step is None or int(row[1]) <= self._first_step:
                        writer.writerow(row)
                        if self._first_step is not None:
                            self._seconds = max(self._seconds, float(row[0]))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return path.open("a", encoding="utf-8", newline="")

    def _drop(self) -> None:
        for file in (self._events, self._table):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        self._events = self._table = None


def _rows(path: Path) -> Iterator[list[str]]:
    """Complete rows of an existing `scalars.csv`; a killed run may have left a partial one."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace", newline="") as old:
        for line in old:
            row = line.rstrip("\n").split(",")
            with contextlib.suppress(ValueError):
                if line.endswith("\n") and len(row) == len(COLUMNS):
                    float(row[0]), int(row[1]), float(row[3])
                    yield row
