"""`kartrl import-rom`: import ROMs of your own: of the kart's cartridge, and of games that stable-retro knows."""

import argparse

from kartrl.commands.shared.arguments import Parser
from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.kart import cartridge


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run, "import-rom my-roms/", "import-rom game.zip other.md", "import-rom my-dump.sfc --states my-states/"
    )
    parser.add_argument("--force", action="store_true", help="replace start states that are there with other content")
    parser.add_argument(
        "files", type=user_path, nargs="+", metavar="FILE", help="ROMs, zip archives of ROMs, or folders of these"
    )
    parser.add_argument(
        "--states", type=user_path, metavar="DIR", help="folder with the kart's start states named <circuit>.state"
    )


def run(options: argparse.Namespace) -> int:
    """Import the ROMs, recognised by their hashes, and start states; returns the exit status."""
    if options.states is not None:
        if len(options.files) > 1:
            raise UserError("--states belongs to one ROM, Super Mario Kart's; import the others without it")
        folder = cartridge.import_rom(options.files[0], options.states, force=options.force)
        print(*cartridge.summary(folder, options.states), sep="\n")
        return 0
    from kartrl.retro.importing import import_roms  # loads NumPy

    found, unknown = import_roms(options.files, {cartridge.SHA1: cartridge.install})
    if not found:
        raise UserError(unknown[0] if unknown else f"{options.files[0]}: no ROM that kartrl knows in it")
    for source, game, file, reason in found:
        if file is None:
            print(f"{source}: {game}, not imported: {reason}")
        elif game:
            print(f"{source}: {game}; train it: kartrl train --env retro/{game}")
        else:
            print(*cartridge.summary(file, None), sep="\n")
    print(*unknown, sep="\n", end="\n" * bool(unknown))
    return 0
