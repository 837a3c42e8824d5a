"""The user's own cartridge: checks a ROM and start states, and copies them to the user's data folder only."""

import gzip
import hashlib
import os
import types
from collections.abc import Mapping
from pathlib import Path

from kartrl.console.states import read_state
from kartrl.errors import UserError
from kartrl.files import check_replaceable, data_folder, explained, make_private, write_private
from kartrl.kart.levels import CIRCUITS

NAME = "SuperMarioKart-Snes"
SHA1 = (Path(__file__).parent / "games" / NAME / "rom.sha").read_text(encoding="ascii").strip()
SIZE = 512 * 1024
COPIER_HEADER = 512


def folder() -> Path:
    """Folder of the imported cartridge: in `KARTRL_DATA`, or in the platform's user data folder; it may not exist."""
    return data_folder() / NAME


def import_rom(file: Path, states: Path | None = None, sha1: str = SHA1, size: int = SIZE, force: bool = False) -> Path:
    """Import the ROM `file`, with or without a copier header, and the start states `<circuit>.state` in `states`.

    Writes nothing before everything has been checked.

    Args:
        sha1, size: expected hash and bytes of the ROM without a copier header.
        force: replace start states that are there with other content.

    Returns:
        The folder of the imported game.

    Raises:
        UserError: the ROM is a different one, a state is invalid or would replace another, or a file cannot be read or
            written.
    """
    rom = _checked_rom(file, sha1, size)
    taken = {} if states is None else _checked_states(states)
    check_replaceable({folder() / name: data for name, data in taken.items()}, force)
    return install(rom, taken)


def install(rom: bytes, states: Mapping[str, bytes] = types.MappingProxyType({})) -> Path:
    """Write a ROM and start states by their files' names; returns their folder.

    Raises:
        UserError: they cannot be written.
    """
    target = folder()
    with explained(target, "write the cartridge", "set KARTRL_DATA to another folder"):
        make_private(target)
        for name, data in {"rom.sfc": rom, **states}.items():
            write_private(target / name, data)
    return target


def _checked_rom(file: Path, sha1: str, size: int) -> bytes:
    with explained(file, "read this ROM"), file.open("rb") as stream:
        rom = stream.read(size + COPIER_HEADER + 1)
        length = os.fstat(stream.fileno()).st_size
    if length == size + COPIER_HEADER:
        rom = rom[COPIER_HEADER:]
    found = hashlib.sha1(rom, usedforsecurity=False).hexdigest()
    if found != sha1:
        raise UserError(
            f"{file}: not a supported ROM: found SHA-1 {found}, {length} bytes; expected {sha1}, {size} bytes "
            f"(or {size + COPIER_HEADER} with a copier header): the US version of Super Mario Kart, unpacked"
        )
    return rom


def _checked_states(states: Path) -> dict[str, bytes]:
    """The start states in a folder, by their files' names."""
    if not states.is_dir():
        raise UserError(f"{states}: not a folder; --states needs a folder with <circuit>.state files")
    known = [file for file in sorted(states.glob("*.state")) if file.stem in CIRCUITS]
    return {file.name: gzip.compress(read_state(file), mtime=0) for file in known}


def summary(target: Path, states: Path | None) -> list[str]:
    """Lines about an imported game: which circuits have a start state, and which files in `states` were ignored."""
    there = [circuit for circuit in CIRCUITS if (target / f"{circuit}.state").exists()]
    missing = [circuit for circuit in CIRCUITS if circuit not in there]
    foreign = (
        [] if states is None else sorted(file.name for file in states.glob("*.state") if file.stem not in CIRCUITS)
    )
    lines = [f"The cartridge is in {target}."]
    if foreign:
        lines.append(f"Ignored, not named after a circuit: {', '.join(foreign)}.")
    lines.append(f"Circuits with a start state: {', '.join(there) or 'none yet'}.")
    if missing:
        lines.append(
            f"Circuits without one: {', '.join(missing)}. Import their <circuit>.state files with --states DIR."
        )
    return lines
