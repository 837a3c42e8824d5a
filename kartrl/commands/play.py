"""`kartrl play`: drive yourself, against the clock or a ghost."""

from __future__ import annotations

import argparse
import io
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kartrl.commands.shared.arguments import Parser, add_levels, add_policy, policies_of
from kartrl.commands.shared.policy import find_default
from kartrl.config import Config
from kartrl.errors import UserError
from kartrl.files import check_folder, user_path
from kartrl.kart import KART
from kartrl.kart.settings import sections_of
from kartrl.metrics.tables import make_console
from kartrl.options import whole_number

if TYPE_CHECKING:
    from kartrl.kart.play.stage import Options


RETRO = "retro/"


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "play -l RainbowRoad.Act1",
        "play my-run -l MarioCircuit.Act4",
        "play --replay drive.bk2 -o drive.mp4",
        "play --game retro/Airstriker-Genesis-v0",
        "play airstriker --game retro/Airstriker-Genesis-v0",
        "play --game retro/my-game --memory",
    )
    add_levels(parser, "a circuit, or several to choose from in the window, named as in [levels] (default: all)")
    add_policy(parser, "the network whose ghost you race against; in a retro game it plays beside you")
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
        type=_game,
        default="auto",
        metavar="GAME",
        help="bundled, cartridge, auto (your own cartridge, if one was imported), or a retro game, such as "
        "retro/Airstriker-Genesis-v0",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="of a retro game: take commands from the terminal that search the console's memory for variables, as "
        "cheat finders do; without a display too",
    )


def _game(name: str) -> str:
    """An argparse `type`."""
    if name not in ("auto", "bundled", "cartridge") and not name.startswith(RETRO):
        raise argparse.ArgumentTypeError(f"{name!r}: choose auto, bundled, cartridge, or a game by retro/NAME")
    return name


def run(options: argparse.Namespace) -> int:
    """Open the window, or convert a movie to a video; returns the exit status."""
    (options.checkpoint,) = policies_of(options)
    if options.game.startswith(RETRO):
        return _run_retro(options)
    if options.memory:
        raise UserError("--memory is for retro games: name one with --game retro/NAME")
    from kartrl.kart.play.stage import Options

    said = io.StringIO()  # which ghost it is
    chosen = Options(
        circuits=tuple(options.state),
        game=options.game,
        checkpoint=find_rival(options, make_console(file=said)),
        greedy=options.greedy,
        device=options.device,
        ghost=options.ghost,
        replay=options.replay,
        output=options.output,
        opponents=options.opponents,
    )
    play(chosen, said.getvalue())
    return 0


def _run_retro(options: argparse.Namespace) -> int:
    if options.ghost or options.opponents:
        raise UserError(f"--game {options.game}: --ghost and --opponents are for the kart; leave them out")
    if options.alone and options.checkpoint:
        raise UserError("--alone cannot be combined with RUN")
    if options.replay is not None and options.state:
        raise UserError("--replay cannot be combined with -l")
    if options.memory and (options.replay or options.output or options.checkpoint):
        raise UserError("--memory cannot be combined with RUN, --replay or -o")
    _check_output(options.output, ".bk2" if options.replay is None else ".mp4")
    import kartrl.viewer  # noqa: F401  # before pygame
    from kartrl.retro.library import game_of
    from kartrl.retro.play import play as play_retro

    game, open_rival = game_of(options.game.removeprefix(RETRO)), None
    if options.checkpoint is not None:
        from kartrl.run.folders import find_checkpoint  # loads torch
        from kartrl.viewer.rival import policy_rival

        def fits(name: str) -> bool:
            return name.startswith(RETRO) and game_of(name.removeprefix(RETRO)).folder == game.folder

        path, chosen = find_checkpoint(options.checkpoint), {"greedy": options.greedy, "device": options.device}
        open_rival = partial(policy_rival, path, fits=fits, overrides=["retro.noop_max=0"], **chosen)
    for file in play_retro(game, options.state, options.replay, options.output, options.memory, open_rival):
        print(f"Written: {file}")
    return 0


def find_rival(options: argparse.Namespace, console: Console) -> Path | None:
    """The checkpoint of the ghost: the named one or, unless other options exclude it, the default for this game."""
    if options.alone and (options.checkpoint or options.ghost):
        raise UserError("--alone cannot be combined with RUN or --ghost")
    if options.checkpoint is not None:
        from kartrl.run.folders import find_checkpoint  # loads torch

        return find_checkpoint(options.checkpoint)
    if options.alone or options.ghost or options.replay or options.opponents:
        return None
    from kartrl.kart.game_files import BUNDLED, game_folder

    folder = game_folder(options.game)

    def fits(config: Config) -> bool:
        return config.environment.id == KART and game_folder(sections_of(config).kart.game) == folder

    return find_default(fits, folder.name == BUNDLED, console, "Ghost")


def play(options: Options, announcement: str) -> None:
    """Open the window, or convert a movie to an MP4 without one; prints the files written.

    Args:
        announcement: printed once everything that the options name has been found.

    Raises:
        UserError: an option names a missing or unsuitable file, a file cannot be written, or there is no display.
    """
    from kartrl.kart.play.stage import Stage, film

    _check(options)
    if options.replay is not None and options.output is not None:
        with Stage(options) as stage:
            file = film(stage, options.output)
        print(f"Video: {file}")
        return

    from kartrl.viewer.window import Window

    window = Window("KartRL")  # first: fails fast without a display
    try:
        from kartrl.kart.play.app import App

        window.wait("loading ..." if options.checkpoint is None else "loading the ghost ...")

        with Stage(options) as stage:
            print(announcement, end="", flush=True)
            app = App(stage, window, options.output)
            app.run()
    finally:
        window.close()
    for file in app.shelf.written:
        print(f"Written: {file}")


def _check(options: Options) -> None:
    if options.replay is not None and (options.checkpoint or options.ghost or options.circuits):
        raise UserError("--replay cannot be combined with -l, RUN or --ghost")
    if options.checkpoint is not None and options.ghost is not None:
        raise UserError("only one ghost is possible: pass either RUN or --ghost")
    if options.opponents and (options.checkpoint or options.ghost or options.replay):
        raise UserError("--opponents cannot be combined with RUN, --ghost or --replay")
    _check_output(options.output, ".bk2" if options.replay is None else ".mp4")


def _check_output(output: Path | None, wanted: str) -> None:
    if output is None:
        return
    if output.suffix.lower() != wanted:
        raise UserError(f"-o {output}: the file name must end in {wanted}")
    check_folder(output)
