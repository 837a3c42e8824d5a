"""TensorBoard event files, written without torch and without a background thread.

The writers of torch and tensorboardX both import torch (about 200 MB) and write in a thread, where a full disk goes
unnoticed or blocks forever. TensorBoard's own record format and protocol buffers need neither.
"""

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.metadata import PLUGIN_NAME
from tensorboard.plugins.hparams.summary_v2 import HParam, Metric, hparams_config_pb, hparams_pb
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from kartrl.files import whole_file


class EventWriter:
    """Writes an event file in `folder`, the only writer there at a time.

    On TensorBoard's page a value removes all of its tag that were written before it and are of later steps, and marks
    of restarts are ignored. So a value that comes late, of an earlier step than its tag's last, is left out.

    Args:
        folder: it must exist.
        first_step: of the checkpoint that is resumed; what earlier files in `folder` have of later steps is removed.

    Raises:
        OSError: the file cannot be written; also raised by all methods except `close`.
    """

    def __init__(self, folder: Path, first_step: int | None = None) -> None:
        earlier = sorted(folder.glob("events.out.tfevents.*"))
        self._steps: dict[str, int] = {}  # tag -> newest step
        for file in earlier:
            self._steps |= _read(file, first_step)
        # TensorBoard reads the files of a folder in order of their names, and requires this pattern; the clock may
        # have been set back since.
        now = max([time.time_ns() / 1e9, *(_began(file) + 1e-6 for file in earlier)])
        name = f"events.out.tfevents.{now:017.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("wb")
        self._records = RecordWriter(self._file)
        try:
            self._write(Event(file_version="brain.Event:2"))
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

    def graph(self, nodes: Sequence[tuple[str, str, Sequence[str]]]) -> None:
        """Write a graph of operations: name, kind, and names of the inputs of each."""
        graph = GraphDef(node=[NodeDef(name=name, op=kind, input=inputs) for name, kind, inputs in nodes])
        self._write(Event(graph_def=graph.SerializeToString()))

    def flush(self) -> None:
        """Flush buffered data to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush if possible, and close the file; closing twice is allowed."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _summary(self, step: int, summary: Summary) -> None:
        values = [value for value in summary.value if self._steps.get(value.tag, step) <= step]
        if values:
            self._steps |= {value.tag: step for value in values}
            self._write(Event(step=step, summary=Summary(value=values)))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())


def newest_images(folder: Path) -> dict[str, bytes]:
    """The newest image of each tag in a folder's event files: tag -> PNG or GIF.

    Raises:
        OSError: a file cannot be read.
    """
    found = dict[str, bytes]()
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for _, event in _records(file):
            found |= {v.tag: v.image.encoded_image_string for v in event.summary.value if v.HasField("image")}
    return found


def _began(file: Path) -> float:
    """The time in an event file's name; 0 if there is none."""
    found = re.match(r"events\.out\.tfevents\.(\d+(?:\.\d+)?)", file.name)
    return float(found[1]) if found is not None else 0.0


def _read(file: Path, first_step: int | None) -> dict[str, int]:
    """The newest step of each tag in an event file, after removing what `EventWriter` does.

    So are settings, of which TensorBoard shows the first: with a first step they are written again.
    """

    def is_kept(event: Event) -> bool:
        return first_step is None or (event.step <= first_step and not any(map(_is_setting, event.summary.value)))

    steps, kept = dict[str, int](), True
    for _, event in _records(file):
        if is_kept(event):
            steps |= {value.tag: event.step for value in event.summary.value}
        else:
            kept = False
    if not kept:
        with whole_file(file) as temporary, temporary.open("wb") as output:
            output.writelines(record for record, event in _records(file) if is_kept(event))
    return steps


def _is_setting(value: Summary.Value) -> bool:
    return value.metadata.plugin_data.plugin_name == PLUGIN_NAME


def _records(file: Path) -> Iterator[tuple[bytes, Event]]:
    """The complete records of an event file (length, checksum, event, checksum), and their events."""
    with file.open("rb") as records:
        size = file.stat().st_size
        while len(head := records.read(12)) == 12:
            length = int.from_bytes(head[:8], "little")
            if length + 4 > size - records.tell():  # its writer was killed, or the disk was full
                return
            rest = records.read(length + 4)
            try:
                event = Event.FromString(rest[:-4])
            except Exception:  # protobuf's own: it is damaged
                return
            yield head + rest, event
