"""`kartrl import-rom`: see `kartrl.kart.cartridge`."""

import argparse
from pathlib import Path

from kartrl.commands.arguments import Parser
from kartrl.kart import cartridge


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl import-rom`."""
    parser.runs(run, "import-rom my-dump.sfc --states my-states/")
    parser.add_argument("file", type=Path, help="the ROM file, with or without a copier header")
    parser.add_argument("--states", type=Path, metavar="DIR", help="folder with start states named <circuit>.state")


def run(options: argparse.Namespace) -> int:
    """Import the ROM and its start states; returns the exit status."""
    cartridge.import_rom(options.file, options.states)
    return 0
