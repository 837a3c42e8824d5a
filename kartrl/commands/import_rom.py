"""`kartrl import-rom`: import the ROM of your own cartridge."""

import argparse

from kartrl.commands.arguments import Parser
from kartrl.files import user_path
from kartrl.kart import cartridge


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl import-rom`."""
    parser.runs(run, "import-rom my-dump.sfc --states my-states/")
    parser.add_argument("--force", action="store_true", help="replace start states that are there with other content")
    parser.add_argument("file", type=user_path, help="the ROM file, with or without a copier header")
    parser.add_argument(
        "--states", type=user_path, metavar="DIR", help="folder with start states named <circuit>.state"
    )


def run(options: argparse.Namespace) -> int:
    """Import the ROM and its start states; returns the exit status."""
    folder = cartridge.import_rom(options.file, options.states, force=options.force)
    print(*cartridge.summary(folder, options.states), sep="\n")
    return 0
