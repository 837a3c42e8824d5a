"""`kartrl circuit`: its arguments; each action is a module, imported when it runs."""

import argparse
import importlib
from pathlib import Path

from kartrl.commands.shared.arguments import Command, Parser, several
from kartrl.files import user_path
from kartrl.kart.circuits import LAPS
from kartrl.kart.levels import HIGHEST
from kartrl.options import whole_number

KINDS = "asphalt, dirt, planks, castle, mud, beach, ice or rainbow"


def add_arguments(parser: Parser) -> None:
    """Add the actions of `kartrl circuit`, with their arguments."""
    parser.description = "create circuits for the bundled game: check, draw and build them, or generate random ones"
    parser.show("circuit check mine.toml", "circuit draw --all", "circuit random --kind ice -n 5 -o ice")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    file = "a circuit's .toml file"
    any_of = "a circuit's .toml or .state file, or the name of a bundled circuit"

    check = _add(
        actions,
        "check",
        "check that circuits can be driven, and list their faults",
        "check mine.toml",
        "check MarioCircuit.Act3 --no-drive",
    )
    _add_circuits(check, f"{file}, or the name of a bundled circuit")
    check.add_argument(
        "--no-drive", dest="drive", action="store_false", help="check the geometry only, without driving"
    )

    build = _add(
        actions,
        "build",
        "build start states for training and playing: DIR/<Name>.state and a map (.png)",
        "build mine.toml -o mine/",
    )
    build.add_argument("file", nargs="+", type=user_path, metavar="FILE", help=file)
    build.add_argument("--force", action="store_true", help="replace files of these names with other content")
    build.add_argument(
        "-o", "--output", type=user_path, default=Path(), metavar="DIR", help="output folder (default: .)"
    )

    sheet = _add(
        actions,
        "draw",
        "draw a circuit's map, with the view from the kart beside it",
        "draw mine.toml --points",
        "draw RainbowRoad.Act1 -o rainbow.png",
    )
    _add_circuits(sheet, f"{any_of}; several are drawn on one sheet")
    sheet.add_argument("--all", action="store_true", help="draw all bundled circuits on one sheet")
    sheet.add_argument(
        "--points", action="store_true", help="number the control points of a .toml, and mark the driving direction"
    )
    sheet.add_argument(
        "-o", "--output", type=user_path, metavar="PNG", help="image file (default: ./<Name>.png, or ./circuits.png)"
    )

    make = _add(
        actions,
        "random",
        "generate random circuits that can be driven: a .toml, .state and .png file for each",
        "random --kind ice -n 5 -o ice/",
    )
    make.add_argument("--force", action="store_true", help="overwrite files of these names even if they were edited")
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
    make.add_argument(
        "-o", "--output", type=user_path, default=Path(), metavar="DIR", help="output folder (default: .)"
    )

    race = _add(
        actions,
        "drive",
        "let the scripted driver race: print its lap times, and optionally record a video",
        "drive mine.toml",
        "drive RainbowRoad.Act1 --laps 1 -o rainbow.mp4",
        "drive MarioCircuit.Act1 VanillaLake.Act1 -o drives.gif",
    )
    _add_circuits(race, any_of)
    race.add_argument("--laps", type=_laps, default=LAPS, metavar="N", help=f"laps (default {LAPS})")
    race.add_argument(
        "-o",
        "--output",
        type=user_path,
        metavar="MP4|GIF|DIR",
        help="record a video: an .mp4, or a folder for several (takes about 20 s per lap); "
        "or a .gif of the first seconds on all of them, side by side",
    )


def _add(actions: "argparse._SubParsersAction[Parser]", name: str, text: str, *examples: str) -> Parser:
    parser = actions.add_parser(name, help=text, description=text)
    parser.runs(_import_later(name), *(f"circuit {example}" for example in examples))
    return parser


def _add_circuits(parser: Parser, text: str) -> None:
    """Add the argument that names circuits, which may also be given as levels are in other commands."""
    parser.add_argument("circuit", nargs="*", action="extend", metavar="FILE|NAME", help=text)
    parser.add_argument(
        "-l", "--level", dest="circuit", action="extend", type=several, metavar="CIRCUIT", help="the same as FILE|NAME"
    )


def _import_later(name: str) -> Command:
    """The action of this name, a module of this package, which is imported only when it runs."""

    def run(options: argparse.Namespace) -> int:
        status: int = importlib.import_module(f"{__name__}.{name}").run(options)
        return status

    return run


def _number(text: str) -> int:
    return whole_number(text, 0, HIGHEST)


def _laps(text: str) -> int:
    return whole_number(text, 1, LAPS)


def _count(text: str) -> int:
    return whole_number(text, 1, 10_000)
