"""`kartrl benchmark generalisation`: see `kartrl.kart.generalisation`."""

import argparse

from kartrl.commands.shared.arguments import Parser, several
from kartrl.files import user_path
from kartrl.metrics.tables import make_console
from kartrl.options import positive


def add_arguments(parser: Parser) -> None:
    parser.runs(run, "benchmark generalisation --quick", "benchmark generalisation --splits within,random -o results/")
    parser.add_argument("what", choices=("generalisation",), help="the benchmark that docs/generalisation.md describes")
    parser.add_argument("--quick", action="store_true", help="a few minutes instead of three hours, to test the setup")
    parser.add_argument(
        "--splits",
        action="extend",
        type=several,
        default=[],
        metavar="SPLIT,SPLIT",
        help="only these: within, across (or across-1 ...), random (random1 to random300), kinds (asphalt, ice ...)",
    )
    parser.add_argument("--seeds", type=positive, help="train with seeds 1 to this number (default 2; quick: 1)")
    parser.add_argument(
        "--steps",
        type=positive,
        help="agent steps per training run (default 400,000, half of that for kinds; quick: 60,000)",
    )
    parser.add_argument("--episodes", type=positive, help="races per circuit (default 2; quick: 1)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one value; repeatable"
    )
    parser.add_argument(
        "-o", "--output", type=user_path, metavar="DIR", help="folder for the results; give it again to resume"
    )


def run(options: argparse.Namespace) -> int:
    """Train and evaluate the missing runs, and report; returns the exit status."""
    from kartrl.kart import generalisation

    sizes = options.seeds, options.steps, options.episodes
    plan = generalisation.make_plan(options.output, options.quick, options.splits, sizes, options.set)
    return generalisation.benchmark(plan, make_console())
