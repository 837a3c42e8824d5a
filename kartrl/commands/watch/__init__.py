"""`kartrl watch`: shows a trained policy in a window, one level after another; or, without a display, in a video."""

import argparse

from kartrl.commands.shared.arguments import Parser, add_driving, add_levels, add_max_steps, add_world, policy
from kartrl.commands.shared.policy import Driving
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.metrics.tables import make_console
from kartrl.options import POLICY, positive

PORT, LARGEST_PORT = 6007, 65_535  # TensorBoard has 6006


def add_arguments(parser: Parser) -> None:
    parser.runs(run, "watch", "watch my-run", "watch logs/my-run/best.pt -l '*.Act1' -o film.mp4", "watch --web my-run")
    parser.add_argument(
        "checkpoint",
        nargs="*",
        metavar="RUN",
        type=policy,
        help=f"{POLICY}; a run that is still training is followed (default, and checkpoint.pt: the newest run's best, "
        "else the one bundled with kartrl); with --web, several to choose from",
    )
    parser.add_argument("--web", action="store_true", help="show it on a page in the browser")
    parser.add_argument(
        "--training", action="store_true", help="with --web and no RUN: wait for a run in training, and follow it"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="with --web: the interface to listen on (default 127.0.0.1)"
    )
    parser.add_argument("--port", type=port, default=PORT, help=f"with --web (default {PORT}; 0: any that is free)")
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
    names = [name for name in options.checkpoint if name is not None]
    if options.web:
        from kartrl.commands.watch.paging import page  # loads torch

        if options.training and names:
            raise UserError(
                f"--training waits for a run that is not named; leave out {names[0]}, which is followed too"
            )
        page(names, Driving.of(options), options.host, options.port, options.seconds, make_console(), options.training)
        return 0
    if options.training:
        raise UserError("--training is for the page: add --web")
    if len(names) > 1:
        raise UserError(f"{names[1]}: only --web shows several policies; name one")
    from kartrl.commands.watch.showing import watch  # loads torch

    watch(names[0] if names else None, Driving.of(options), options.output, options.seconds, make_console())
    return 0


def port(text: str) -> int:
    """An argparse `type`: a port's number."""
    if not (text.isascii() and text.isdecimal() and int(text) <= LARGEST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r}: 0 to {LARGEST_PORT}")
    return int(text)
