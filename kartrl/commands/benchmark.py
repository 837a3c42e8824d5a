"""`kartrl benchmark generalisation`: see `kartrl.kart.generalisation`."""

import argparse

from rich.console import Console

from kartrl.kart import generalisation


def benchmark(options: argparse.Namespace) -> int:
    """Train and measure what is not done yet, and report; the exit status."""
    sizes = options.seeds, options.steps, options.episodes
    plan = generalisation.make_plan(options.output, options.quick, options.splits, sizes, options.set)
    return generalisation.benchmark(plan, Console())
