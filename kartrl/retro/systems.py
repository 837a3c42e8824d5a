"""The consoles, as stable-retro describes their emulators."""

import functools
import json
import sys
from pathlib import Path
from typing import NamedTuple

from kartrl.console.cores import core_file, retro_folder
from kartrl.retro.buttons import Groups


class System(NamedTuple):
    """A console."""

    name: str
    core: str  # its emulator
    endings: tuple[str, ...]  # of its ROMs' files
    buttons: tuple[str | None, ...]  # of its joypad, by bit
    actions: Groups  # combinations of buttons that are useful in most of its games
    base: int  # address of its working memory
    word: int  # its memory is in words of this many bytes, each in reverse; 1: in order

    @property
    def core_file(self) -> Path:
        """Its emulator's file.

        Raises:
            UserError: there is none for this platform.
        """
        return core_file(self.core)


@functools.cache
def systems() -> dict[str, System]:
    """All consoles by name.

    Raises:
        UserError: stable-retro is not installed.
    """
    found = {}
    for file in sorted((retro_folder() / "cores").glob("*.json")):
        for name, about in json.loads(file.read_text(encoding="utf-8")).items():
            backing, real, word = about.get("overlay", ("=", "=", 1))
            reversed_ = backing != real and (real == ">") == (sys.byteorder == "little")
            found[name] = System(
                name,
                about["lib"],
                tuple(about["ext"]),
                tuple(about["buttons"]),
                about["actions"],
                about.get("rambase", 0),
                word if reversed_ else 1,
            )
    return found
