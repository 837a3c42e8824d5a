"""Metric sinks: an event file for TensorBoard, `scalars.csv`, `episodes.csv`, and trackers."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kartrl.config import Config, dump, settings
from kartrl.metrics.episodes_csv import EpisodesTable
from kartrl.metrics.event_writer import EventWriter
from kartrl.metrics.records import EpisodeRecord, Video
from kartrl.metrics.scalars_csv import ScalarsTable
from kartrl.metrics.trackers import make_tracker

RETRY_SECONDS = 60.0  # pause after a failed write
HEADLINES = ("charts/episodic_return", "evaluation/train_return", "evaluation/test_return")
"""Tags of the values by which runs are compared."""


class WriteWarning:
    """Says once, on stderr, that something is not written to a folder while training continues."""

    def __init__(self, what: str, folder: Path) -> None:
        self._what, self._folder, self._said = what, folder, False

    def __call__(self, error: OSError) -> None:
        if not self._said:
            self._said = True
            text = f"{self._what} are not written to {self._folder} ({error.strerror or error}); training continues"
            print(f"kartrl: {text}", file=sys.stderr, flush=True)


class Sinks:
    """Writes the same scalars to both files, and to the tracker that `run.tracker` names; films to that alone.

    A full disk or a read-only folder loses data but never ends the process: it is reported once on stderr, and writing
    is retried every minute. A tracker that fails is reported once and then dropped; `close` is the only call that waits
    for one.

    Args:
        run_folder: folder of both files.
        first_step: agent steps of the resumed checkpoint; later data of existing files is discarded.
        config: written to the event file, as text and as hyperparameters.
        first_seconds: its seconds of training; see `CsvTable`.
    """

    def __init__(
        self,
        run_folder: Path,
        first_step: int,
        config: Config,
        first_seconds: float = math.inf,
        provenance: Mapping[str, str] | None = None,
    ) -> None:
        self._config, self._provenance = config, provenance or {}
        self._folder = run_folder
        self._first_step: int | None = first_step  # None after existing files have been truncated
        self._events: EventWriter | None = None
        first = run_folder, first_step, first_seconds
        self._table, self._episodes = ScalarsTable(*first), EpisodesTable(*first)
        self._retry_at = 0.0
        self._warn = WriteWarning("metrics", run_folder)
        self._tracker = make_tracker(config, run_folder, self._on_tracker_failure)

    def scalars(self, step: int, values: Mapping[str, float], seconds: float) -> None:
        """Write tag -> value to both files, at this many agent steps and seconds of training."""

        def write(events: EventWriter) -> None:
            self._table.write(seconds, step, values)
            events.scalars(step, values)

        if values:
            self._try(write)
        if values and self._tracker is not None:
            self._tracker.scalars(step, values)

    def video(self, video: Video) -> None:
        """Send a film to the tracker; TensorBoard has it from the evaluator."""
        if self._tracker is not None:
            self._tracker.video(video)

    def episode(self, record: EpisodeRecord) -> None:
        """Write a training episode to `episodes.csv`."""
        self._try(lambda _: self._episodes.write(record))

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
            self._episodes.flush()

        self._try(write)

    def close(self) -> None:
        """Flush and close both files, and end the tracker's run."""
        self.flush()
        self._drop()
        if self._tracker is not None:
            self._tracker.close()

    def _on_tracker_failure(self, error: Exception) -> None:
        name = self._config.run.tracker
        print(f"kartrl: {name} failed ({error}); training continues without it", file=sys.stderr, flush=True)

    def _try(self, write: Callable[[EventWriter], None]) -> None:
        if time.monotonic() < self._retry_at:
            return
        try:
            write(self._open())
        except OSError as error:
            self._drop()
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._warn(error)

    def _open(self) -> EventWriter:
        if self._events is None:
            self._table.open()
            self._episodes.open()
            self._events = EventWriter(self._folder, self._first_step)
            if self._first_step is not None:
                self._events.text(self._first_step, "config", dump(self._config, about=self._provenance))
                self._events.settings({**settings(self._config), **self._provenance}, HEADLINES)
            self._first_step = None
        return self._events

    def _drop(self) -> None:
        self._table.close()
        self._episodes.close()
        if self._events is not None:
            with contextlib.suppress(OSError):
                self._events.close()
            self._events = None
