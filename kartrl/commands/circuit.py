"""`kartrl circuit`: its arguments; what its actions need is imported when they run."""

import argparse
from collections.abc import Callable
from pathlib import Path

from kartrl.kart.circuits import LAPS

KINDS = "asphalt, dirt, planks, castle, mud, beach, ice or rainbow"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`kartrl circuit ACTION ...`."""
    text = "make circuits of your own for the bundled game: draw, check, build them, or have random ones made (docs/circuits.md)"
    parser = commands.add_parser("circuit", help="make circuits of your own, or random ones", description=text)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    file = "a circuit's .toml"
    any_of = "a circuit's .toml or .state, or the name of one of the game's own"

    check = _add(actions, "check", "tell whether circuits can be driven, and what is wrong")
    check.add_argument("file", nargs="+", type=Path, metavar="FILE", help=file)
    check.add_argument(
        "--no-drive", dest="drive", action="store_false", help="geometry only: do not have the scripted driver race"
    )

    build = _add(actions, "build", "make start states, ready to train and race on: DIR/<Name>.state and a map, .png")
    build.add_argument("file", nargs="+", type=Path, metavar="FILE", help=file)
    build.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR", help="where to (default: here)")

    picture = _add(actions, "draw", "draw a circuit's map, and the view from the kart beside it")
    picture.add_argument("circuit", nargs="*", metavar="FILE|NAME", help=f"{any_of}; several make one sheet")
    picture.add_argument("--all", action="store_true", help="one sheet of all the game's own circuits")
    picture.add_argument(
        "--points", action="store_true", help="number a .toml's control points, and show the way it is driven"
    )
    picture.add_argument(
        "-o", "--output", type=Path, metavar="PNG", help="the picture (default: <Name>.png here, or circuits.png)"
    )

    make = _add(actions, "random", "make random circuits that can be driven: .toml, .state and .png of each")
    make.add_argument("--seed", type=_number, default=0, metavar="N", help="number of the first one (default 0)")
    make.add_argument("--kind", metavar="K", help=f"its ground: {KINDS}; without it, one kind after the other")
    make.add_argument(
        "-n",
        type=_count,
        default=1,
        metavar="COUNT",
        dest="count",
        help="how many, with the seeds N, N + 1, ... (default 1)",
    )
    make.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR", help="where to (default: here)")

    race = _add(actions, "drive", "have the scripted driver race, tell its lap times, and film it")
    race.add_argument("circuit", nargs="+", metavar="FILE|NAME", help=any_of)
    race.add_argument("--laps", type=int, choices=range(1, LAPS + 1), default=LAPS, help=f"how many (default {LAPS})")
    race.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="MP4|DIR",
        help="film it: an .mp4, or a folder for one of each (20 s a lap)",
    )


def _add(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(command=_later(name))
    return parser


def _later(name: str) -> Callable[[argparse.Namespace], int]:
    """A command of `kartrl.kart.circuits.commands`, which is imported only when it runs."""

    def run(options: argparse.Namespace) -> int:
        from kartrl.kart.circuits import commands as all_of

        known = {
            "check": all_of.check,
            "build": all_of.build,
            "draw": all_of.draw_,
            "random": all_of.random_,
            "drive": all_of.drive_,
        }
        return known[name](options)

    return run


def _number(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**31:
        raise argparse.ArgumentTypeError("must be 0 to 2147483647")
    return number


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 10_000:
        raise argparse.ArgumentTypeError("must be 1 to 10000")
    return count
