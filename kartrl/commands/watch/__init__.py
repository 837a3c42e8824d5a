"""`kartrl watch`: a trained policy drives in a window, level after level; or in a film, where there is no display."""

import argparse
from pathlib import Path

from rich.console import Console

from kartrl.commands.arguments import POLICY, Parser, add_driving, add_world, positive


def add_arguments(parser: Parser) -> None:
    """What `kartrl watch` takes."""
    parser.runs(run, "watch", "watch my-run", "watch logs/my-run/best.pt -s '*.Act1' -o film.mp4")
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN",
        help=f"{POLICY}; a run that is training is followed (default: the newest run's best, else the one that comes "
        "with kartrl)",
    )
    parser.add_argument(
        "-s", "--state", nargs="+", default=[], metavar="CIRCUIT", help="only these; as in [levels], also random:20"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="no window, but an MP4 (so it is where there is no display)"
    )
    parser.add_argument(
        "--seconds", type=positive, default=0, help="go on to the next circuit after so many (default: after the race)"
    )
    add_driving(parser)
    add_world(parser)


def run(options: argparse.Namespace) -> int:
    """Open the window, or film; the exit status."""
    from kartrl.commands.watch.showing import watch  # loads torch

    choices = options.state, options.output, options.seconds, options.greedy, options.device
    watch(options.checkpoint, *choices, Console(), options.set)
    return 0
