"""What the page of `kartrl watch --web` costs a training beside it, and how many pictures a second it shows.

    python benchmarks/page_cost.py [--pairs 3] [--seconds 20] [-c pong]

One training, with alternating windows: alone, and followed by a page with a viewer that takes each picture at once. The
viewer only receives: a browser on the same cores draws as well.
"""

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from kartrl.metrics import scalars_csv

STEPS = "speed/updates"  # a tag that each report has
NAME = "watched"


def agent_steps(logs: Path, begin: float, end: float) -> float:
    """Agent steps per second between two moments of the training's clock."""
    rows = [row for row in scalars_csv.read(logs / NAME) if row.tag == STEPS and begin <= row.seconds <= end]
    return (rows[-1].agent_steps - rows[0].agent_steps) / (rows[-1].seconds - rows[0].seconds)


def now(logs: Path) -> float:
    """The newest moment of the training's clock that it has reported."""
    return max((row.seconds for row in scalars_csv.read(logs / NAME)), default=0.0)


@contextmanager
def page(logs: Path) -> Iterator[ClientConnection]:
    """A page that follows the training, from its first picture on."""
    command = [sys.executable, "-m", "kartrl", "watch", str(logs / NAME), "--web", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://(\S+?)/(\?\S+)?", process.stdout.readline())
            assert found is not None, "kartrl watch prints an address"
            address = f"ws://{found[1]}/live{found[2] or ''}"
            origin = Origin(f"http://{found[1]}")
            with connect(address, origin=origin, max_size=None, compression=None) as viewer:
                while not isinstance(viewer.recv(), bytes):
                    pass
                yield viewer
        finally:
            process.send_signal(signal.SIGINT)


def pictures(viewer: ClientConnection, seconds: float) -> float:
    """Pictures per second; each is acknowledged at once."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        if isinstance(viewer.recv(), bytes):
            count += 1
            viewer.send(json.dumps({"do": "seen"}))
    return count / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    options, trained = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        fixed = {"run.logs": folder, "run.name": NAME, "run.agent_steps": "1000000000", "run.checkpoint_minutes": "0.2"}
        given = [f"--set={key}={value}" for key, value in {**fixed, "evaluation.minutes": "0"}.items()]
        command = [sys.executable, "-m", "kartrl", "train", "--plain", *trained, *given]
        training = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not [*logs.glob(f"{NAME}/checkpoints/*.pt")] or now(logs) < options.seconds:
                time.sleep(1)
            ratios = []
            for pair in range(options.pairs):
                begin = now(logs)
                time.sleep(options.seconds + 5)
                alone = agent_steps(logs, begin, now(logs))
                with page(logs) as viewer:
                    begin = now(logs)
                    shown = pictures(viewer, options.seconds + 5)
                    beside = agent_steps(logs, begin, now(logs))
                ratios.append(beside / alone)
                print(
                    f"pair {pair + 1}: {alone:,.0f} agent steps/s alone, {beside:,.0f} beside the page, "
                    f"{shown:.1f} pictures/s"
                )
            print(f"ratios {', '.join(f'{ratio:.3f}' for ratio in ratios)}, median {statistics.median(ratios):.3f}")
        finally:
            training.send_signal(signal.SIGINT)
            training.wait()


if __name__ == "__main__":
    main()
