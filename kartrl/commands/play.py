"""`kartrl play`: see `kartrl.kart.play`."""

import argparse
from pathlib import Path

from rich.console import Console

from kartrl.commands.policy import find_default
from kartrl.config import Environment
from kartrl.errors import UserError
from kartrl.kart import KART
from kartrl.kart.play import Options
from kartrl.kart.play import play as play_kart
from kartrl.kart.retro import BUNDLED, game_folder
from kartrl.runtime.run_folders import find_checkpoint


def play(options: argparse.Namespace, console: Console) -> int:
    """Open the window, or film a movie; the exit status."""
    play_kart(
        Options(
            circuit=options.state,
            game=options.game,
            checkpoint=find_rival(options, console),
            greedy=options.greedy,
            device=options.device,
            ghost=options.ghost,
            replay=options.replay,
            output=options.output,
            opponents=options.opponents,
        )
    )
    return 0


def find_rival(options: argparse.Namespace, console: Console) -> Path | None:
    """The checkpoint of the ghost: the one named or, where nothing else is asked for, the one for this game."""
    if options.alone and (options.checkpoint or options.ghost):
        raise UserError("--alone cannot be combined with -p or --ghost")
    if options.checkpoint is not None:
        return find_checkpoint(options.checkpoint)
    if options.alone or options.ghost or options.replay or options.opponents:
        return None
    folder = game_folder(options.game)

    def fits(section: Environment) -> bool:
        return section.id == KART and game_folder(section.game) == folder

    return find_default(fits, folder.name == BUNDLED, console, "Ghost")
