"""TensorBoard event files, written without torch and without a background thread.

The writers of torch and tensorboardX both import torch (about 200 MB) and write in a thread, where a full disk goes
unnoticed or blocks forever. TensorBoard's own record format and protocol buffers need neither.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import HParam, Metric, hparams_config_pb, hparams_pb
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto


class EventWriter:
    """Writes an event file in `folder`.

    Args:
        folder: created if it does not exist.
        purge_step: TensorBoard discards data of earlier files in `folder` from this step on.

    Raises:
        OSError: the file cannot be written; also raised by all methods except `close`.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in order of their names, and requires this pattern.
        name = f"events.out.tfevents.{time.time_ns() / 1e9:017.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("wb")
        self._records = RecordWriter(self._file)
        try:
            self._write(Event(file_version="brain.Event:2"))
            if purge_step is not None:
                self._write(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))
            self._file.flush()
        except OSError:  # retries on a full disk must not leave empty files
            self.close()
            (folder / name).unlink()
            raise

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write all of `values` (tag -> value) at `step`."""
        self._summary(
            step, Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        )

    def histogram(self, step: int, tag: str, values: np.ndarray) -> None:
        """Write the distribution of `values`, float [any]; drops non-finite values."""
        self._summary(step, histogram_pb(tag, values[np.isfinite(values)]))

    def image(self, step: int, tag: str, encoded: bytes, height: int, width: int) -> None:
        """Write an encoded PNG or GIF; TensorBoard animates GIFs."""
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=encoded)
        self._summary(step, Summary(value=[Summary.Value(tag=tag, image=image)]))

    def text(self, step: int, tag: str, text: str) -> None:
        """Write text for the Text tab, to be shown verbatim."""
        tensor = make_tensor_proto([f"```\n{text}\n```".encode()])
        metadata = create_summary_metadata("", "")
        self._summary(step, Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)]))

    def settings(self, values: Mapping[str, bool | float | str], metrics: Sequence[str]) -> None:
        """Write a run's settings for the HParams tab, which shows them with the last values of the tags `metrics`."""
        names, tags = [HParam(name) for name in values], [Metric(tag) for tag in metrics]
        self._summary(0, hparams_config_pb(names, tags))
        self._summary(0, hparams_pb(dict(values)))

    def flush(self) -> None:
        """Flush buffered data to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush if possible, and close the file; closing twice is allowed."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _summary(self, step: int, summary: Summary) -> None:
        self._write(Event(step=step, summary=summary))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
