"""Checks of the games: the emulator, the bundled game, the user's own cartridge, Atari."""

import hashlib
import importlib.metadata
import importlib.util
import os
from contextlib import closing
from pathlib import Path

from kartrl.commands.doctor.configured import Examined, State
from kartrl.config import Config
from kartrl.errors import UserError
from kartrl.kart import KART, cartridge
from kartrl.kart.settings import sections_of
from kartrl.processes.isolation import run_isolated

MISSING = "missing"


def check_emulator(examined: Examined) -> tuple[State, str]:
    """Check that the emulator runs the bundled game for a second."""
    from kartrl.kart.game_files import core_file

    try:
        core = core_file()
        title = run_isolated(_drive_a_second)
    except UserError as error:
        return "problem" if examined.config.environment.id == KART else "warning", str(error)
    return "ok", f"stable-retro {importlib.metadata.version('stable-retro')}: {core.name} drives {title}"


def _drive_a_second() -> str:
    """Run the bundled ROM for a second; returns the game's title."""
    import numpy as np

    from kartrl.kart.console import KartConsole
    from kartrl.kart.game_files import BUNDLED, GAMES, circuits

    folder = GAMES / BUNDLED
    with closing(KartConsole(folder, circuits(folder)[0])) as console:
        console.step(console.buttons(["B"]), 60)
        if np.ptp(console.screen()) == 0 or console.race()["speed"] == 0:
            raise UserError(
                "the emulator runs, but the bundled game does not: reinstall kartrl, or rebuild it with `make game`"
            )
        return console.game.title


def check_bundled_rom(examined: Examined) -> tuple[State, str]:
    """Check that the bundled ROM is intact."""
    from kartrl.kart.game_files import BUNDLED, GAMES, circuits

    folder = GAMES / BUNDLED
    expected = (folder / "rom.sha").read_text(encoding="ascii").strip()
    found = _sha1(folder / "rom.sfc")
    if found == expected:
        return "ok", f"SHA-1 {found}, as expected; {len(circuits(folder))} circuits"
    advice = "reinstall kartrl, or rebuild it with `make game`"
    text = f"SHA-1 {found}, expected {expected}, of {folder / 'rom.sfc'}: {advice}"
    required = examined.config.environment.id == KART and not _drives_cartridge(examined.config)
    return "problem" if required else "warning", text


def check_cartridge(examined: Examined) -> tuple[State, str]:
    """Check that the cartridge's ROM is the right one, if there is one or one is needed."""
    from kartrl.kart.game_files import circuits

    folder = cartridge.folder()
    driven = _drives_cartridge(examined.config)
    found = _sha1(folder / "rom.sfc")
    if found == cartridge.SHA1:
        states = f"start states of {len(circuits(folder))} circuits"
        return "ok", f"SHA-1 {found}, as expected; {states}; used by kart.game=auto"
    if found == MISSING:
        text = f"none in {folder}; optional: import your own Super Mario Kart (US) with kartrl import-rom FILE"
        return (
            ("problem", f"none in {folder}: kartrl import-rom FILE, or --set kart.game=bundled")
            if driven
            else ("ok", text)
        )
    advice = "kartrl import-rom FILE, or --set kart.game=bundled"
    text = f"SHA-1 {found}, expected {cartridge.SHA1}, in {folder}: {advice}"
    return "problem" if driven else "warning", text


def _drives_cartridge(config: Config) -> bool:
    if config.environment.id != KART:
        return False
    game = sections_of(config).kart.game
    return game == "cartridge" or (game == "auto" and os.path.isfile(cartridge.folder() / "rom.sfc"))


def _sha1(file: Path) -> str:
    try:
        return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError as error:
        return f"unreadable ({error.strerror})"


def check_atari(_: Examined) -> tuple[State, str]:
    """Report whether Atari games are installed."""
    if importlib.util.find_spec("ale_py") is None:
        return "ok", "ale-py is not installed; only Atari games need it: pip install 'kartrl[atari]'"
    return "ok", f"ale-py {importlib.metadata.version('ale-py')}"
