#!/usr/bin/env bash
# TensorBoard 2.21.0, with its data server 0.7.2 (the default).
#
# Behaviour: a value written for an EARLIER step than its tag's last makes the page forget every later value of the tag,
# and of two values for one step it shows the second. The files still hold all: the Python reader (EventAccumulator) and
# the page with `--load_fast=false` return every value, out of order.
# Guess: points are sorted by step, or drawn in the order of writing; in either case all are there.
# Harm: evaluations that run beside training finish late and are logged with the step of the weights that they tested:
# one slow evaluation (or a second process that logs into the same folder) deletes the newest part of the curve from the
# page, and each further point brings only itself back. Scripts that read the same files see nothing wrong.
# Remedy: one writer for each tag, and steps in order: keep results back until those of earlier steps are there, or drop
# the late one; or a tag (or run) of its own for late results.
#
# Seen (steps 1 to 10 written, then 5 again, then 11):
#   the page:                 [1, 2, 3, 4, 5, 11]
#   with --load_fast=false:   [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 5, 11]
#   EventAccumulator:         [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 5, 11]
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    tensorboard==2.21.0 tensorboard-data-server==0.7.2 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - 2>messages.txt <<'EOF' || { tail -n 5 messages.txt >&2; exit 1; }
import json
import socket
import subprocess
import sys
import time
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

WRITTEN = [*range(1, 11), 5, 11]

writer = EventFileWriter("runs/one")
for step in WRITTEN:
    summary = Summary(value=[Summary.Value(tag="score", simple_value=float(step))])
    writer.add_event(Event(step=step, wall_time=time.time(), summary=summary))
writer.close()


def page(*options):
    """The steps that the page's own request for the curve returns."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--port", str(port), *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(120):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=one&tag=score"
                ) as answer:
                    points = json.load(answer)
            except OSError:
                continue
            if points and points[-1][1] == WRITTEN[-1]:
                return [step for _, step, _ in points]
        sys.exit("CHANGED: the page never showed the last point")
    finally:
        server.terminate()
        server.wait()


reader = EventAccumulator("runs/one")
reader.Reload()
fast, slow, python = page(), page("--load_fast=false"), [event.step for event in reader.Scalars("score")]
print(f"the page:                {fast}\nwith --load_fast=false:  {slow}\nEventAccumulator:        {python}")
if fast != [1, 2, 3, 4, 5, 11]:
    sys.exit("CHANGED: a value of an earlier step no longer removes the later ones from the page")
if slow != WRITTEN or python != WRITTEN:
    sys.exit("CHANGED: the other readers no longer return every value")
EOF
