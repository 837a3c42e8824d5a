"""`kartrl play`: see `kartrl.kart.play`."""

import argparse
import io
from functools import partial
from pathlib import Path

from rich.console import Console

from kartrl.commands.arguments import Parser, add_levels, add_policy
from kartrl.commands.policy import find_default
from kartrl.config import Environment
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.kart import KART
from kartrl.options import whole_number


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl play`."""
    parser.runs(
        run,
        "play -s RainbowRoad.Act1",
        "play -s MarioCircuit.Act4 -p my-run",
        "play --replay drive.bk2 -o drive.mp4",
    )
    add_levels(parser, "a circuit, or several to choose from in the window, named as in [levels] (default: all)")
    add_policy(parser, "the network whose ghost you race against")
    parser.add_argument(
        "--ghost",
        type=user_path,
        metavar="FILE",
        help="race against the ghost of a movie, the .bk2 file of an earlier drive",
    )
    parser.add_argument("--alone", action="store_true", help="race against the clock, without a ghost")
    parser.add_argument(
        "--opponents",
        type=partial(whole_number, least=0, most=7),
        default=0,
        metavar="N",
        help="number of karts driven by the game, up to 7 (default 0)",
    )
    parser.add_argument(
        "--replay",
        type=user_path,
        metavar="FILE",
        help="show a movie; with -o FILE.mp4, convert it to a video without opening a window",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=user_path,
        metavar="FILE",
        help="save each race as a movie: FILE.bk2, then FILE-2.bk2 beside it, ...",
    )
    parser.add_argument(
        "--game",
        choices=("auto", "bundled", "cartridge"),
        default="auto",
        help="auto: your own cartridge, if one was imported",
    )


def run(options: argparse.Namespace) -> int:
    """Open the window, or convert a movie to a video; returns the exit status."""
    from kartrl.kart.play import Options, play

    said = io.StringIO()  # which ghost it is; printed once everything that the options name has been found
    play(
        Options(
            circuits=tuple(options.state),
            game=options.game,
            checkpoint=find_rival(options, Console(file=said)),
            greedy=options.greedy,
            device=options.device,
            ghost=options.ghost,
            replay=options.replay,
            output=options.output,
            opponents=options.opponents,
            announcement=said.getvalue(),
        )
    )
    return 0


def find_rival(options: argparse.Namespace, console: Console) -> Path | None:
    """The checkpoint of the ghost: the named one or, unless other options exclude it, the default for this game."""
    if options.alone and (options.checkpoint or options.ghost):
        raise UserError("--alone cannot be combined with -p or --ghost")
    if options.checkpoint is not None:
        from kartrl.run.folders import find_checkpoint  # loads torch

        return find_checkpoint(options.checkpoint)
    if options.alone or options.ghost or options.replay or options.opponents:
        return None
    from kartrl.kart.game_files import BUNDLED, game_folder

    folder = game_folder(options.game)

    def fits(section: Environment) -> bool:
        return section.id == KART and game_folder(section.game) == folder

    return find_default(fits, folder.name == BUNDLED, console, "Ghost")
