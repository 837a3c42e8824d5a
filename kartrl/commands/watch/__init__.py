"""`kartrl watch`: shows a trained policy in a window, one level after another; or, without a display, in a video."""

import argparse

from rich.console import Console

from kartrl.commands.arguments import POLICY, Parser, add_driving, add_levels, add_max_steps, add_world, policy
from kartrl.files import user_path
from kartrl.options import positive


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl watch`."""
    parser.runs(run, "watch", "watch my-run", "watch logs/my-run/best.pt -s '*.Act1' -o film.mp4")
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN",
        type=policy,
        help=f"{POLICY}; a run that is still training is followed (default, and checkpoint.pt: the newest run's best, "
        "else the one bundled with kartrl)",
    )
    add_levels(parser, "only these circuits, named as in [levels], such as random:20")
    parser.add_argument(
        "-o",
        "--output",
        type=user_path,
        metavar="FILE",
        help="record an MP4 instead of opening a window (the default without a display)",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=0,
        help="continue with the next circuit after this many seconds (default: after the race)",
    )
    add_max_steps(parser, film=True)
    add_driving(parser)
    add_world(parser)


def run(options: argparse.Namespace) -> int:
    """Open the window, or record a video; returns the exit status."""
    from kartrl.commands.watch.showing import watch  # loads torch

    choices = options.state, options.output, options.seconds, options.greedy, options.device
    watch(options.checkpoint, *choices, Console(), options.set, options.max_steps)
    return 0
