"""Throughput with an agent killed every ten seconds, compared with undisturbed training in alternating windows.

python benchmarks/kills.py [-c pong] [--set section.key=value] [--seconds 60] [--rounds 3] [--every 10]
"""

import argparse
import contextlib
import random
import statistics
import threading
from collections.abc import Iterator

import psutil
from rich.progress import Progress

from kartrl.launch import config_options
from kartrl.measuring.windows import train_window
from kartrl.metrics.tables import make_console
from kartrl.options import add_config, config_files


def kill_periodically(every: float, done: threading.Event, kills: list[int], title: str = "kartrl agent-") -> None:
    """Every `every` seconds, kill a random descendant of this process whose title starts with `title`."""
    done.wait(2 * every)  # an agent killed before the first update would end the run
    while not done.wait(every):
        if found := list(descendants(title)):
            with contextlib.suppress(psutil.Error):
                random.choice(found).kill()
                kills.append(1)


def descendants(title: str) -> Iterator[psutil.Process]:
    """Descendants of this process whose title starts with `title`."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it may have ended
            if (process.cmdline() or [""])[0].startswith(title):
                yield process


def parse(description: str | None) -> argparse.Namespace:
    """Parse the command line of this benchmark, and of others with kills."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_config(parser)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--every", type=float, default=10, help="seconds between two kills")
    return parser.parse_args()


def main() -> None:
    options, console = parse(__doc__), make_console()
    arguments = config_options(config_files(options), options.set)
    ratios = []
    for _ in range(options.rounds):
        rates, kills = [], []
        for disturbed in (False, True):
            done = threading.Event()
            killer = threading.Thread(target=kill_periodically, args=(options.every, done, kills), daemon=True)
            if disturbed:
                killer.start()
            with Progress(console=console, transient=True) as progress:
                window = train_window(arguments, options.seconds, options.warm, progress)
            done.set()
            rates.append(window.agent_steps_per_second)
        ratios.append(rates[1] / rates[0])
        console.print(
            f"undisturbed {rates[0]:,.0f}, with {len(kills)} kills {rates[1]:,.0f} agent steps/s: {ratios[-1]:.2f}",
            highlight=False,
        )
    console.print(f"median of {options.rounds}: {statistics.median(ratios):.2f}", highlight=False)


if __name__ == "__main__":
    main()
