"""`kartrl bench`: its arguments; `measure` does the work, and is imported only when it runs."""

import argparse

from kartrl.commands.shared.arguments import Parser
from kartrl.commands.shared.results import add_formats, console_for, print_results
from kartrl.options import add_config, config_files, positive


def add_arguments(parser: Parser) -> None:
    parser.runs(run, "bench", "bench -c mine.cfg --seconds 60 --repeat 3 --json")
    add_config(parser)
    parser.add_argument(
        "--seconds", type=positive, default=90, help="length of a training window, in seconds (default 90)"
    )
    parser.add_argument(
        "--warm", type=positive, default=15, help="seconds between the first update and the window (default 15)"
    )
    parser.add_argument("--repeat", type=positive, default=1, help="number of windows (default 1)")
    parser.add_argument(
        "--peer",
        default="",
        metavar="COMMAND",
        help="another system's training command, which prints '@B steps=N upd=N', as those in benchmarks/peers",
    )
    parser.add_argument(
        "--ray",
        default="",
        metavar="ADDRESS",
        help="after each window, run another one with nodes of agents, as train --ray ADDRESS; see cluster.nodes",
    )
    add_formats(parser, "window")


def run(options: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    from kartrl.commands.bench.measure import Settings, bench

    settings = Settings(options.seconds, options.warm, options.repeat, options.peer, options.ray)
    figures = bench(config_files(options), options.set, settings, console_for(options))
    print_results(options, figures["windows"], **figures)
    return 0
