"""`kartrl race`: policies, recorded drives and the scripted driver against each other, in a table and a film."""

import argparse

from kartrl.commands.shared.arguments import Parser, add_driving, add_levels, policy
from kartrl.commands.shared.results import add_formats
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.options import POLICY, positive, whole_number

SECONDS = 600  # of a race


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl race`."""
    parser.runs(
        run,
        "race my-run scripted -l MarioCircuit.Act4",
        "race my-run drive.bk2 scripted -o duel.mp4 --camera drive",
        "race my-run RUN -l '*.Act1' --no-film --json",
    )
    parser.add_argument(
        "competitors",
        nargs="+",
        metavar="RUN",
        type=policy,
        help=f"two or more policies, each {POLICY}; on circuits and in retro games also recorded drives, which "
        "`play -o FILE.bk2` writes; on circuits also `scripted`, the scripted driver",
    )
    add_levels(
        parser,
        "a circuit, or several for a grand prix, named as in [levels] (default: that of a recorded drive, else the "
        "first one of the first policy)",
    )
    parser.add_argument(
        "--camera",
        metavar="NAME",
        help="on circuits: whose view is filmed, by the name or the place on the command line, from 1 (default: the "
        "leader's)",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=SECONDS,
        help=f"end a race after this many seconds of play (default {SECONDS})",
    )
    parser.add_argument(
        "--seed", type=lambda text: whole_number(text, 0), default=0, metavar="N", help="of the episodes (default 0)"
    )
    add_driving(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=user_path,
        metavar="FILE",
        help="the MP4 file; a picture of the podium is saved beside it",
    )
    parser.add_argument("--no-film", dest="film", action="store_false", help="print the table alone")
    add_formats(parser, "competitor in each race")


def run(options: argparse.Namespace) -> int:
    """Race, and print the results; returns the exit status."""
    if not options.film and (options.output is not None or options.camera is not None):
        raise UserError("-o and --camera are for a film; leave --no-film out")
    from kartrl.commands.race.racing import race  # loads torch

    race(options)
    return 0
