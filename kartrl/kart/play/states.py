"""Start states that a player makes: where they go under the name that was typed, and writing them."""

import gzip
from pathlib import Path

from kartrl.config.levels import CIRCUITS
from kartrl.errors import UserError
from kartrl.kart import cartridge

SUFFIX = ".state"


def place(folder: Path, text: str) -> Path:
    """The file for a start state of the game in `folder`.

    A path (with a slash, or ending in .state) is taken as it is. A mere name of a circuit goes, for the cartridge, into
    the user's data folder, where configurations look for it; for the bundled game, which has all its own, into the current folder.

    Raises:
        UserError: the text is neither.
    """
    text = text.strip()
    if not text or not text.isprintable():
        raise UserError("type the circuit's name, or the path of a file")
    if "/" in text or text.endswith(SUFFIX):
        file = Path(text).expanduser()
        if file.name in ("", ".", "..", SUFFIX):
            raise UserError("this path has no file's name")
        return file if file.suffix == SUFFIX else file.with_name(file.name + SUFFIX)
    if folder != cartridge.folder():
        return Path(text + SUFFIX)
    if text not in CIRCUITS:
        raise UserError("no circuit of the cartridge: choose one with up and down")
    return folder / (text + SUFFIX)


def save(file: Path, state: bytes) -> None:
    """Write a start state as a whole or not at all, as stable-retro packs it, readable by its owner only.

    Raises:
        UserError: it cannot be written.
    """
    try:
        cartridge.write(file, gzip.compress(state, mtime=0))
    except OSError as error:
        raise UserError(f"{file}: cannot write there ({error.strerror})") from error


def proposals(folder: Path) -> list[str]:
    """Names to choose from, those without a start state first."""
    return sorted(CIRCUITS, key=lambda name: ((folder / (name + SUFFIX)).exists(), name))
