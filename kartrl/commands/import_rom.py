"""`kartrl import-rom`: see `kartrl.kart.cartridge`."""

import argparse
from pathlib import Path

from kartrl.commands.arguments import Parser
from kartrl.kart import cartridge


def add_arguments(parser: Parser) -> None:
    """What `kartrl import-rom` takes."""
    parser.runs(run, "import-rom my-dump.sfc --states my-states/")
    parser.add_argument("file", type=Path, help="the ROM file, with or without a copier header")
    parser.add_argument("--states", type=Path, metavar="DIR", help="folder with start states, <circuit>.state")


def run(options: argparse.Namespace) -> int:
    """Take in the ROM and its start states; the exit status."""
    cartridge.import_rom(options.file, options.states)
    return 0
