"""Where the games are: ROMs, descriptions, start states, and stable-retro's emulator core."""

import json
import os
from pathlib import Path

from kartrl.console import cores
from kartrl.errors import UserError
from kartrl.kart import cartridge

GAMES = Path(__file__).parent / "games"
BUNDLED = "KartRL-Snes"
BUILD = "build.json"  # only the bundled game has one


def game_folder(game: str) -> Path:
    """Resolve `auto`, `bundled` or `cartridge` to the game's folder, which contains the ROM and the start states.

    Raises:
        UserError: the game is not installed, or there is no emulator for this platform.
    """
    core_file()
    own = cartridge.folder()
    has_own = os.path.isfile(own / "rom.sfc")  # unlike Path.is_file, False in another user's home
    if game == "cartridge" and not has_own:
        raise UserError(
            f"no cartridge in {own}: import your own ROM with `kartrl import-rom FILE`, or set kart.game=bundled"
        )
    if game in ("auto", "cartridge") and has_own:
        return own
    if game not in ("auto", "bundled"):
        raise UserError(f"unknown game {game!r}: choose auto, bundled or cartridge")
    bundled = GAMES / BUNDLED
    if not (bundled / "rom.sfc").is_file():
        raise UserError(f"no ROM in {bundled}: build the bundled game with `make game`")
    return bundled


def resolve_game(game: str) -> str:
    """What `auto` stands for now, "bundled" or "cartridge"; others stay as they are.

    Raises:
        UserError: see `game_folder`.
    """
    return "bundled" if game_folder(game).name == BUNDLED else "cartridge"


def circuits(folder: Path) -> tuple[str, ...]:
    """Names of the circuits with a start state in the game's `folder`."""
    return tuple(sorted(file.stem for file in folder.glob("*.state")))


def state_file(folder: Path, circuit: str) -> Path:
    """The start state of `circuit`: its name in the game's `folder`, or the path of a `.state` file.

    Raises:
        UserError: there is no such start state.
    """
    if circuit.endswith(".state"):
        if not (file := Path(circuit)).is_file():
            raise UserError(f"{circuit}: no such start state")
        return file
    known = circuits(folder)
    if circuit not in known:
        raise UserError(f"no start state for circuit {circuit!r} in {folder}; available: {', '.join(known) or 'none'}")
    return folder / f"{circuit}.state"


def integration_file(folder: Path, name: str) -> Path:
    """A description file of the game in `folder`: in that folder or, for an imported cartridge, in this package."""
    return folder / name if (folder / name).is_file() else GAMES / folder.name / name


def core_file() -> Path:
    """Path of stable-retro's SNES core.

    Raises:
        UserError: stable-retro is not installed.
    """
    return cores.core_file("snes9x")


def build_id(folder: Path) -> int:
    """Build number of the bundled game."""
    return int(json.loads((folder / BUILD).read_text(encoding="utf-8"))["build_id"])
