"""`kartrl import-rom`: see `kartrl.kart.cartridge`."""

import argparse

from kartrl.kart import cartridge


def import_rom(options: argparse.Namespace) -> int:
    """Take in the ROM and its start states; the exit status."""
    cartridge.import_rom(options.file, options.states)
    return 0
