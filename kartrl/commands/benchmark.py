"""`kartrl benchmark generalisation`: see `kartrl.kart.generalisation`."""

import argparse
from pathlib import Path

from rich.console import Console

from kartrl.commands.arguments import Parser, positive


def add_arguments(parser: Parser) -> None:
    """What `kartrl benchmark` takes."""
    parser.runs(run, "benchmark generalisation --quick", "benchmark generalisation --splits within random -o results/")
    parser.add_argument("what", choices=("generalisation",), help="what docs/generalisation.md describes")
    parser.add_argument(
        "--quick", action="store_true", help="some minutes instead of three hours, to see that it works"
    )
    parser.add_argument(
        "--splits",
        nargs="+",
        default=[],
        metavar="SPLIT",
        help="only these: within, across (or across-1 ...), random (random1 to random300), kinds (asphalt, ice ...)",
    )
    parser.add_argument("--seeds", type=positive, help="seeds 1 to this (default 2; quick: 1)")
    parser.add_argument(
        "--steps",
        type=positive,
        help="agent steps of each training (default 400,000, half of it for kinds; quick: 60,000)",
    )
    parser.add_argument("--episodes", type=positive, help="races on each circuit (default 2; quick: 1)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one value; repeatable"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder of the results; to continue, name it again"
    )


def run(options: argparse.Namespace) -> int:
    """Train and measure what is not done yet, and report; the exit status."""
    from kartrl.kart import generalisation

    sizes = options.seeds, options.steps, options.episodes
    plan = generalisation.make_plan(options.output, options.quick, options.splits, sizes, options.set)
    return generalisation.benchmark(plan, Console())
