"""`kartrl circuit`: its arguments; the implementation of each action is imported when it runs."""

import argparse
from collections.abc import Callable
from pathlib import Path

from kartrl.kart.circuits import LAPS

KINDS = "asphalt, dirt, planks, castle, mud, beach, ice or rainbow"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`kartrl circuit ACTION ...`."""
    text = "create circuits for the bundled game: check, draw and build them, or generate random ones"
    parser = commands.add_parser("circuit", help="create your own circuits, or generate random ones", description=text)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    file = "a circuit's .toml file"
    any_of = "a circuit's .toml or .state file, or the name of a bundled circuit"

    check = _add(actions, "check", "check that circuits can be driven, and list their faults")
    check.add_argument("file", nargs="+", type=Path, metavar="FILE", help=file)
    check.add_argument(
        "--no-drive", dest="drive", action="store_false", help="check the geometry only, without driving"
    )

    build = _add(actions, "build", "build start states for training and playing: DIR/<Name>.state and a map, .png")
    build.add_argument("file", nargs="+", type=Path, metavar="FILE", help=file)
    build.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR", help="output folder (default: .)")

    sheet = _add(actions, "draw", "draw a circuit's map, with the view from the kart beside it")
    sheet.add_argument("circuit", nargs="*", metavar="FILE|NAME", help=f"{any_of}; several are drawn on one sheet")
    sheet.add_argument("--all", action="store_true", help="draw all bundled circuits on one sheet")
    sheet.add_argument(
        "--points", action="store_true", help="number the control points of a .toml, and mark the driving direction"
    )
    sheet.add_argument(
        "-o", "--output", type=Path, metavar="PNG", help="image file (default: ./<Name>.png, or ./circuits.png)"
    )

    make = _add(actions, "random", "generate random circuits that can be driven: a .toml, .state and .png of each")
    make.add_argument("--seed", type=_number, default=0, metavar="N", help="seed of the first circuit (default 0)")
    make.add_argument("--kind", metavar="K", help=f"kind of ground: {KINDS} (default: each in turn)")
    make.add_argument(
        "-n",
        type=_count,
        default=1,
        metavar="COUNT",
        dest="count",
        help="number of circuits, with seeds N, N + 1, ... (default 1)",
    )
    make.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR", help="output folder (default: .)")

    race = _add(actions, "drive", "race with the scripted driver: print its lap times, and optionally record a video")
    race.add_argument("circuit", nargs="+", metavar="FILE|NAME", help=any_of)
    race.add_argument("--laps", type=int, choices=range(1, LAPS + 1), default=LAPS, help=f"laps (default {LAPS})")
    race.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="MP4|DIR",
        help="record a video: an .mp4, or a folder for several (takes about 20 s per lap)",
    )


def _add(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(command=_import_later(name))
    return parser


def _import_later(name: str) -> Callable[[argparse.Namespace], int]:
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
