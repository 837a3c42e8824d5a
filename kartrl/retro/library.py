"""The games that stable-retro knows: where their integrations, start states and ROMs are."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kartrl.config.wording import nearest
from kartrl.console.cores import retro_folder
from kartrl.console.roms import sha1
from kartrl.errors import UserError
from kartrl.files import data_folder, read_text, user_path
from kartrl.retro.systems import System, systems

COLLECTIONS = ("stable", "experimental", "contrib")  # of stable-retro, in the order in which a name is looked up
BUNDLED = Path(__file__).parent / "games"  # kartrl's own
PLATFORMS = {"Arcade": "FBNeo"}  # names of consoles in names of games that differ from those of stable-retro's cores
NOT_RUN = ("fbneo", "melonds", "mednafen_saturn", "parallel_n64", "picodrive")  # emulators that were never tried here


class Game(NamedTuple):
    """A game with an integration."""

    name: str
    folder: Path  # of its integration
    system: System

    @property
    def own(self) -> bool:
        """Whether it is the user's, not one of stable-retro's."""
        return retro_folder() not in self.folder.parents

    @property
    def hashes(self) -> tuple[str, ...]:
        """SHA-1 of the revisions of its ROM that the integration fits; () if it does not say."""
        file = self.folder / "rom.sha"
        return tuple(read_text(file).lower().split()) if file.is_file() else ()

    def rom(self) -> Path:
        """Its ROM: imported by kartrl or into stable-retro, or in ale-py's package; one's own is in the game's folder.

        Raises:
            UserError: it is missing, or another revision.
        """
        hashes = self.hashes
        for folder in (self.folder,) if self.own else (imported_folder() / self.name, self.folder):
            for ending in self.system.endings:
                file = folder / f"rom.{ending}"
                if os.path.isfile(file):  # unlike Path.is_file, False in another user's home
                    found = sha1(file)
                    if hashes and found not in hashes:
                        if self.own:
                            raise UserError(
                                f"{file}: its SHA-1, {found}, is not in rom.sha; write it there, or delete that"
                            )
                        raise UserError(
                            f"{file}: another revision of {self.name} (SHA-1 {found}, not {' or '.join(hashes)}); "
                            "import the right one: kartrl import-rom FILE"
                        )
                    return file
        if self.system.name == "Atari2600":
            for digest, file in atari_roms():
                if digest in hashes:
                    return file
        wanted = f" (SHA-1 {' or '.join(hashes)})" if hashes else ""
        raise UserError(f"no ROM of {self.name}: import yours with `kartrl import-rom FILE`{wanted}")

    def states(self) -> tuple[str, ...]:
        """Names of its start states."""
        return tuple(sorted(file.stem for file in self.folder.glob("*.state") if not file.name.startswith("_")))

    def state_file(self, state: str) -> Path:
        """The file of a start state.

        Raises:
            UserError: there is no such state.
        """
        file = self.folder / f"{state}.state"
        if not file.is_file():
            known = self.states()
            near = f"; the nearest is {nearest(state, known)!r}" if known else "; it has none"
            raise UserError(f"{self.name} has no start state {state!r}{near}")
        return file

    def default_state(self, players: int = 1) -> str | None:
        """The start state that its integration chooses; None if there is none."""
        about = self._about()
        for_players = about.get("default_player_state", [])
        chosen = for_players[players - 1] if players <= len(for_players) else about.get("default_state")
        known = self.states()
        return chosen if chosen in known else known[0] if known else None

    def scenarios(self) -> tuple[str, ...]:
        """Names of its scenarios."""
        others = ("data", "metadata")
        return tuple(sorted(file.stem for file in self.folder.glob("*.json") if file.stem not in others))

    def file(self, kind: str) -> Path | None:
        """A file of its integration, such as data.json; None if there is none."""
        file = self.folder / kind
        return file if file.is_file() else None

    def _about(self) -> dict[str, Any]:
        file = self.file("metadata.json")
        try:
            about = {} if file is None else json.loads(read_text(file))
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: cannot read it ({error})") from error
        return about if isinstance(about, dict) else {}


@functools.cache
def folders() -> dict[str, Path]:
    """The folders of all games by name.

    Raises:
        UserError: stable-retro is not installed.
    """
    found: dict[str, Path] = {}
    for collection in (*(retro_folder() / "data" / name for name in COLLECTIONS), BUNDLED):
        with os.scandir(collection) as entries:
            for entry in entries:
                if "-" in entry.name and entry.is_dir():
                    found.setdefault(entry.name, Path(entry.path))
    return dict(sorted(found.items()))


def find_game(name: str, own: Sequence[str] = ()) -> Game:
    """A game by the name that stable-retro has.

    Args:
        own: other names that may have been meant.

    Raises:
        UserError: there is no such game.
    """
    folder = folders().get(name)
    if folder is None:
        near = nearest(name, [*folders(), *own])
        raise UserError(
            f"stable-retro has no game {name!r}; the nearest is {near!r}; nor is there a folder of this name in the "
            "current one, for a game of your own"
        )
    return game_in(folder)


def game_of(name: str) -> Game:
    """A game by the name that stable-retro has, or one of the user's own by its folder.

    Raises:
        UserError: there is none, or kartrl does not run its console.
    """
    folder = user_path(name)
    if name not in folders() and os.path.isdir(folder):
        return game_in(folder.absolute())
    beside = sorted({str(Path(name).with_name(rom.parent.name)) for rom in folder.parent.glob("*/rom.*")})
    if "/" in name:
        near = f"; the nearest is {nearest(name, beside)!r}" if beside else ""
        raise UserError(
            f"retro/{name}: no such folder here, and no game that stable-retro knows has a / in its name{near}"
        )
    return find_game(name, beside)


def game_in(folder: Path) -> Game:
    """The game of an integration.

    Raises:
        UserError: neither a ROM in it nor its name tells the console, or kartrl does not run that.
    """
    name = re.sub(r"-v\d+$", "", folder.name).rpartition("-")[2]
    for system in systems().values():
        if any((folder / f"rom.{ending}").is_file() for ending in system.endings):
            break
    else:
        if (found := systems().get(PLATFORMS.get(name, name))) is None:
            raise UserError(f"{folder}: no ROM in it; name one by its console, such as rom.sfc for an SNES")
        system = found
    if system.core in NOT_RUN:
        raise UserError(f"{folder.name}: kartrl does not run games for {name} ({system.core})")
    return Game(folder.name, folder, system)


def imported_folder() -> Path:
    """Folder of the ROMs that kartrl has imported: in `KARTRL_DATA`, or in the platform's user data folder."""
    return data_folder() / "retro"


@functools.cache
def atari_roms() -> tuple[tuple[str, Path], ...]:
    """Hashes and files of the ROMs in ale-py's package."""
    found = importlib.util.find_spec("ale_py")
    folder = None if found is None or found.origin is None else Path(found.origin).parent / "roms"
    return () if folder is None else tuple((sha1(file), file) for file in sorted(folder.glob("*.bin")))
