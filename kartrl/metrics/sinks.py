"""Metric sinks: an event file for TensorBoard, and `scalars.csv`."""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kartrl.metrics.event_writer import EventWriter
from kartrl.metrics.scalars_csv import ScalarsTable

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
        self._table = ScalarsTable(run_folder, first_step)
        self._retry_at = 0.0
        self._warned = False

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write tag -> value to both files."""

        def write(events: EventWriter) -> None:
            self._table.write(step, values)
            events.scalars(step, values)

        if values:
            self._try(write)

    def histograms(self, step: int, values: Mapping[str, np.ndarray]) -> None:
        """Write tag -> float [any] to the event file."""

        def write(events: EventWriter) -> None:
            for tag, array in values.items():
                events.histogram(step, tag, array)

        self._try(write)

    def flush(self) -> None:
        """Flush buffered data to the operating system."""

        def write(events: EventWriter) -> None:
            events.flush()
            self._table.flush()

        self._try(write)

    def close(self) -> None:
        """Flush and close both files."""
        self.flush()
        self._drop()

    def _try(self, write: Callable[[EventWriter], None]) -> None:
        if time.monotonic() < self._retry_at:
            return
        try:
            write(self._open())
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

    def _open(self) -> EventWriter:
        if self._events is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._table.open()
            self._events = EventWriter(self._folder, None if self._first_step is None else self._first_step + 1)
            self._first_step = None
        return self._events

    def _drop(self) -> None:
        self._table.close()
        if self._events is not None:
            with contextlib.suppress(OSError):
                self._events.close()
            self._events = None
