"""Start states saved by a player: resolving the typed name to a file, and writing it."""

from pathlib import Path

from kartrl.errors import UserError
from kartrl.files import user_path
from kartrl.kart import cartridge
from kartrl.kart.levels import CIRCUITS

SUFFIX = ".state"


def place(folder: Path, text: str) -> Path:
    """Resolve the text typed by a player to the file of a start state of the game in `folder`.

    A path (with a slash, or ending in .state) is used as it is. The name of a circuit is saved in the user's data
    folder for the cartridge, where configurations find it, and in the current folder for the bundled game.

    Raises:
        UserError: the text is neither a path nor such a name.
    """
    text = text.strip()
    if not text or not text.isprintable():
        raise UserError("type the name of a circuit, or the path of a file")
    if "/" in text or text.endswith(SUFFIX):
        file = user_path(text)
        if file.name in ("", ".", "..", SUFFIX):
            raise UserError("this path has no file name")
        return file if file.suffix == SUFFIX else file.with_name(file.name + SUFFIX)
    if folder != cartridge.folder():
        return Path(text + SUFFIX)
    if text not in CIRCUITS:
        raise UserError("not a circuit of the cartridge: choose one with up and down")
    return folder / (text + SUFFIX)


def proposals(folder: Path) -> list[str]:
    """Names of circuits to choose from, those without a start state first."""
    return sorted(CIRCUITS, key=lambda name: ((folder / (name + SUFFIX)).exists(), name))
