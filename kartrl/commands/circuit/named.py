"""What the actions of `kartrl circuit` have in common: circuits as a user names them, and new files."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from rich.progress import track

from kartrl.errors import UserError
from kartrl.files import explained, unused_file
from kartrl.kart.circuits import library
from kartrl.kart.circuits.format import OWN, title_of
from kartrl.kart.game_files import BUNDLED, GAMES, circuits, core_file
from kartrl.metrics.tables import make_console

GAME = GAMES / BUNDLED


def circuits_of(options: argparse.Namespace) -> list[str]:
    """The circuits that a command line names.

    Raises:
        UserError: it names none.
    """
    if not options.circuit:
        every = ", or --all" * hasattr(options, "all")
        raise UserError(f"no circuit given: pass a .toml, a .state or a name{every}")
    return [os.path.expanduser(name) for name in options.circuit]


def check_exists(circuit: str) -> None:
    """Raise UserError if `circuit` is neither a file nor a bundled circuit."""
    if Path(circuit).suffix.lower() not in (".toml", ".state") and circuit not in circuits(GAME):
        names = ", ".join(f"{file.stem} ({title_of(file.stem)})" for file in sorted(OWN.glob("*.toml")))
        raise UserError(f"no circuit {circuit!r}: pass a .toml, a .state or a bundled circuit: {names}")


def short_name(circuit: str) -> str:
    path = Path(circuit)
    return path.stem if path.suffix.lower() in (".toml", ".state") else circuit


def is_described(circuit: str) -> bool:
    return Path(circuit).suffix.lower() == ".toml"


def has_emulator() -> bool:
    try:
        core_file()
    except UserError:
        return False
    return True


def in_seconds(times: Iterable[float]) -> str:
    return ", ".join(f"{seconds:.1f}" for seconds in times) + " s"


def save_new(wanted: Path, data: bytes) -> Path:
    """Write a file in its folder, which is created, without replacing any other; returns the file."""
    with explained(wanted, "write"):
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with unused_file(wanted) as file:
            library.save(file, data)
            return file


def with_progress(items: Iterable[str], title: str, total: int) -> Iterable[str]:
    """The items, with a progress bar in a terminal."""
    terminal = make_console(stderr=True)
    return track(items, title, total, console=terminal, transient=True, disable=not terminal.is_terminal)
