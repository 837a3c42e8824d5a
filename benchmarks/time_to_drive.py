"""Time until kartrl and a peer can drive the kart: they alternate, one process at a time; a table over all seeds.

    python benchmarks/time_to_drive.py --seeds 1 2 3 4 5 --minutes 1 --folder /tmp/drive \
        --peer "$HOME/peers/sb3/bin/python benchmarks/peers/sb3_kart.py --steps 80000"

Times are in seconds from the start of the process. "90 %" is when 45 of the last 50 training episodes finished their
race. A peer is started with `--seed N --output FILE` and writes a row for each episode to that file. Arguments after
`--` are passed to run.py.
"""

import argparse
import csv
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RECENT, GOOD = 50, 45  # episodes
ROOT = Path(__file__).parents[1]


class Reached(NamedTuple):
    """When something was first reached."""

    seconds: float = float("inf")
    steps: float = float("inf")

    def __str__(self) -> str:
        return "not reached" if self.seconds == float("inf") else f"{self.seconds:.0f} s, {self.steps / 1000:.0f} k"


class Result(NamedTuple):
    """The result of a training run."""

    first_race: Reached
    most_races: Reached


def read(path: Path, start: float) -> Result:
    """Read a file of episodes; times are in seconds since `start`, a Unix time."""
    recent: deque[int] = deque(maxlen=RECENT)
    first = most = Reached()
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            now, finished = Reached(float(row["time"]) - start, int(row["agent_steps"])), int(row["finished"])
            recent.append(finished)
            if finished:
                first = min(first, now)
            if sum(recent) >= GOOD:
                most = min(most, now)
    return Result(first, most)


def train(command: Sequence[str], episodes: Path, minutes: float = float("inf")) -> Result:
    """Run training to its end, or stop it by SIGINT after this many minutes.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    start = time.time()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            status = process.wait(None if minutes == float("inf") else 60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            status = process.wait()
    if status not in (0, 128 + signal.SIGINT):
        raise subprocess.CalledProcessError(status, command)
    return read(episodes, start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--minutes", type=float, default=1, help="after which kartrl is stopped (default 1)")
    parser.add_argument("--folder", type=Path, required=True, help="for the runs")
    parser.add_argument("--peer", help="command of the peer")
    parser.add_argument("arguments", nargs="*", help="for run.py, after --")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[Result]] = {"kartrl": []} | ({"peer": []} if options.peer else {})
    for seed in options.seeds:
        name, output = f"seed{seed}", options.folder.resolve() / f"peer{seed}.csv"
        ours = [sys.executable, "run.py", "--set", f"run.logs={options.folder.resolve()}", "--set", f"run.name={name}"]
        ours += ["--set", f"run.seed={seed}", *options.arguments]
        # not by run.minutes: the learning rate's schedule would end with them
        runs = {"kartrl": (ours, options.folder / name / "episodes.csv", options.minutes)}
        if options.peer:
            peer = [*shlex.split(options.peer), "--seed", str(seed), "--output", str(output)]
            runs["peer"] = (peer, output, float("inf"))
        for system, (command, episodes, minutes) in runs.items():
            result = train(command, episodes, minutes)
            results[system].append(result)
            print(f"{system} {seed}: first race {result.first_race}; 90 % {result.most_races}", flush=True)
    print("\n| | first race, median | 90 % of the last 50 finished, median |\n|---|---|---|")
    for system, all_results in results.items():
        medians = [
            Reached(*(statistics.median(getattr(result, field)[part] for result in all_results) for part in (0, 1)))
            for field in Result._fields
        ]
        print(f"| {system} | {medians[0]} | {medians[1]} |")


if __name__ == "__main__":
    main()
