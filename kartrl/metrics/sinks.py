"""Where metrics end up: an event file for TensorBoard, and `scalars.csv`."""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kartrl.metrics.event_writer import EventWriter
from kartrl.metrics.scalars_csv import ScalarsTable

RETRY_SECONDS = 60.0  # after a write has failed


class Sinks:
    """Both files; they get the same scalars.

    A full disk or a read-only folder costs data, never the process: it is told once on stderr, and tried again
    every minute.

    Args:
        run_folder: gets both files.
        first_step: what the files say of later steps than this, from a run that went further than the checkpoint
            that is now resumed, is forgotten.
    """

    def __init__(self, run_folder: Path, first_step: int) -> None:
        self._folder = run_folder
        self._first_step: int | None = first_step  # None once older files were dealt with
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
        """Hand what was written to the operating system."""

        def write(events: EventWriter) -> None:
            events.flush()
            self._table.flush()

        self._try(write)

    def close(self) -> None:
        """Write what is left and close both files."""
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
                    f"kartrl: metrics are not written to {self._folder} ({reason}); training goes on",
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
