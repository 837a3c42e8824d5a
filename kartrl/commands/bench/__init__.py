"""`kartrl bench`: its arguments; `measure` does the work, and is imported when it runs."""

import argparse
from pathlib import Path

from kartrl.commands.arguments import Parser, add_config, config_files, positive


def add_arguments(parser: Parser) -> None:
    """What `kartrl bench` takes."""
    parser.runs(run, "bench", "bench -c mine.cfg --seconds 60 --repeat 3 --json bench.json")
    add_config(parser, shortcuts=False)
    parser.add_argument("--seconds", type=positive, default=90, help="length of a window of training (default 90)")
    parser.add_argument(
        "--warm", type=positive, default=15, help="seconds between the first update and the window (default 15)"
    )
    parser.add_argument("--repeat", type=positive, default=1, help="windows (default 1)")
    parser.add_argument(
        "--peer",
        default="",
        metavar="COMMAND",
        help="another system's training that prints '@B steps=N upd=N', as benchmarks/peers",
    )
    parser.add_argument(
        "--ray",
        default="",
        metavar="ADDRESS",
        help="after each window another one with nodes of agents, as train --ray ADDRESS; --set cluster.nodes=N",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(options: argparse.Namespace) -> int:
    """Measure and print; the exit status."""
    from rich.console import Console

    from kartrl.commands.bench.measure import Settings, bench

    settings = Settings(options.seconds, options.warm, options.repeat, options.peer, options.ray, options.json)
    bench(config_files(options), options.set, settings, Console())
    return 0
