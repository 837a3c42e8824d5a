"""`kartrl retro new`: begin the integration of a game of your own."""

import argparse
import shlex

from kartrl.commands.shared.arguments import Parser
from kartrl.files import shown, user_path


def add_arguments(parser: Parser) -> None:
    parser.show("retro new rapids game.nes")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    text = "make a folder with a ROM and commented files: where its variables are, reward, end and actions"
    new = actions.add_parser("new", help=text, description=text)
    new.runs(run, "retro new rapids game.nes")
    new.add_argument("folder", type=user_path, metavar="FOLDER", help="a new folder")
    new.add_argument(
        "rom", type=user_path, metavar="ROM", help="the game; its ending tells the console: .nes, .sfc, ..."
    )


def run(options: argparse.Namespace) -> int:
    """Make the folder; returns the exit status."""
    from kartrl.retro.library import folders  # these load NumPy
    from kartrl.retro.own.skeleton import begin_integration

    begin_integration(options.folder, options.rom)
    name = shown(options.folder.absolute())
    game = shlex.quote(f"retro/{'./' * (str(name) in folders())}{name}")
    print(f"Written: {name}; describe the game in its files, which say how")
    print(f"Play it, and save start states with F3: kartrl play --game {game}")
    print(f"Train on it: kartrl train --env {game}")
    return 0
