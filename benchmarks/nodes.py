"""Cost of nodes of agents on one machine: no nodes, one node, two that share its cores, and two with kills.

python benchmarks/nodes.py [-c pong] [--set section.key=value] [--seconds 60] [--rounds 3] [--every 10]

The object store's memory is measured as the growth of /dev/shm, which nothing else should use meanwhile. Every other
round goes backwards, against drift; stolen is the share of the processors that a virtual machine's host withheld.
"""

import shutil
import statistics
import threading

import psutil
from kills import kill_periodically, parse
from rich.progress import Progress

from kartrl.launch import config_options
from kartrl.measuring.windows import train_window
from kartrl.metrics.tables import make_console
from kartrl.options import config_files

ONE, TWO = ["cluster.ray=auto"], ["cluster.ray=auto", "cluster.nodes=2"]
ARMS = {"plain": ([], False), "one node": (ONE, False), "two nodes": (TWO, False), "two nodes, killed": (TWO, True)}


def main() -> None:
    options = parse(__doc__)
    console, files = make_console(), config_files(options)
    rates: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for number in range(options.rounds):
        for arm, (overrides, killed) in list(ARMS.items())[:: 1 if number % 2 == 0 else -1]:
            # an evaluation would run in some windows and not in others
            arguments = config_options(files, ["evaluation.minutes=0", *options.set, *overrides])
            before = shared()
            done, kills, store = threading.Event(), list[int](), list[int]()
            watch = threading.Thread(target=watch_store, args=(done, store), daemon=True)
            killer = threading.Thread(
                target=kill_periodically, args=(options.every, done, kills, "ray::Node"), daemon=True
            )
            for thread in (watch, *([killer] if killed else [])):
                thread.start()
            psutil.cpu_times_percent()  # the next call tells what has been since
            with Progress(console=console, transient=True) as progress:
                window = train_window(arguments, options.seconds, options.warm, progress)
            done.set()
            rates[arm].append(window.agent_steps_per_second)
            console.print(
                f"{arm}: {rates[arm][-1]:,.0f} agent steps/s; lag {window.lag:.1f}; "
                f"object store {(max(store, default=before) - before) / 1e6:.0f} MB; {len(kills)} kills; "
                f"stolen {psutil.cpu_times_percent().steal:.1f} %",
                highlight=False,
                soft_wrap=True,
            )
    for arm, found in rates.items():
        ratios = [rate / plain for rate, plain in zip(found, rates["plain"], strict=True)]
        console.print(
            f"{arm}: median {statistics.median(found):,.0f} agent steps/s, {statistics.median(ratios):.2f} of plain "
            f"({', '.join(f'{ratio:.2f}' for ratio in ratios)})",
            highlight=False,
            soft_wrap=True,
        )


def shared() -> int:
    """Bytes used in /dev/shm."""
    return shutil.disk_usage("/dev/shm").used


def watch_store(done: threading.Event, seen: list[int]) -> None:
    """Record the bytes used, every second."""
    while not done.wait(1.0):
        seen.append(shared())


if __name__ == "__main__":
    main()
