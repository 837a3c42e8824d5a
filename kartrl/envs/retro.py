"""Drives the SNES emulator below stable-retro's own environment, and finds the games it plays."""

import gc
import importlib.util
import json
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kartrl.envs import cartridge
from kartrl.envs.cartridge import read_state
from kartrl.envs.race import Course, load_game
from kartrl.errors import UserError

GAMES = Path(__file__).parents[1] / "games"
BUNDLED = "KartRL-Snes"

_newest: "weakref.ref[Console] | None" = None  # the console that owns this process's emulator


def game_folder(game: str) -> Path:
    """The folder of the game that `auto`, `bundled` or `cartridge` means here; it holds the ROM and the start states.

    Raises:
        UserError: the game is not there, or there is no emulator for this platform.
    """
    if importlib.util.find_spec("stable_retro") is None:
        raise UserError(
            "the SNES emulator, stable-retro, is not installed; it exists for Linux on x86-64 and macOS on arm64 only. "
            "Without it the kart cannot be driven, but other environments train: --set environment.id=CartPole-v1"
        )
    own = cartridge.folder()
    has_own = (own / "rom.sfc").is_file()
    if game == "cartridge" and not has_own:
        raise UserError(f"no cartridge in {own}: import your own ROM with `kartrl import-rom FILE`, or set environment.game=bundled")
    if game in ("auto", "cartridge") and has_own:
        return own
    if game not in ("auto", "bundled"):
        raise UserError(f"unknown game {game!r}: there are auto, bundled and cartridge")
    bundled = GAMES / BUNDLED
    if not (bundled / "rom.sfc").is_file():
        raise UserError(f"no ROM in {bundled}: build the bundled game with `make game`")
    return bundled


def circuits(folder: Path) -> tuple[str, ...]:
    """Names of the circuits for which the game in `folder` has a start state."""
    return tuple(sorted(file.stem for file in folder.glob("*.state")))


def integration_file(folder: Path, name: str) -> Path:
    """A file that describes the game in `folder`: there or, for an imported cartridge, in this package."""
    return folder / name if (folder / name).is_file() else GAMES / folder.name / name


class Console:
    """An SNES with a game in it. stable-retro allows one per process: opening another closes the one before.

    Args:
        folder: the game's folder, or a name for `game_folder`.
        circuit: the circuit to load at once.
    """

    def __init__(self, folder: Path | str, circuit: str | None = None) -> None:
        global _newest
        self.folder = game_folder(folder) if isinstance(folder, str) else folder
        import stable_retro

        self.game = load_game(integration_file(self.folder, "game.json"))
        self._told = _told(self.folder)
        before = _newest() if _newest is not None else None
        if before is not None:
            before.close()
        gc.collect()  # an emulator in a reference cycle still counts as one
        try:
            self._emulator = stable_retro.RetroEmulator(str(self.folder / "rom.sfc"))
        except RuntimeError as error:
            if "multiple" not in str(error):
                raise UserError(f"{self.folder / 'rom.sfc'}: the emulator cannot start this ROM ({error})") from error
            raise UserError(
                "stable-retro allows one emulator in a process, and another part of this program has one open: "
                "close it first, or give each its own process"
            ) from error
        _newest = weakref.ref(self)
        self.data = stable_retro.data.GameData()
        self._emulator.configure_data(self.data)
        self._emulator.step()
        if not self.data.load(*(str(integration_file(self.folder, name)) for name in ("data.json", "scenario.json"))):
            raise UserError(f"{self.folder}: data.json or scenario.json there cannot be read")
        self._buttons: list[str] = stable_retro.get_system_info("Snes")["buttons"]
        self._states: dict[str, bytes] = {}
        self._ticks: int | None = None  # what the ROM was last told; None: unknown
        if circuit is not None:
            self.load(circuit)

    def buttons(self, names: Sequence[str]) -> npt.NDArray[np.uint8]:
        """The joypad with these buttons held, as `step` takes it, uint8 [12]."""
        unknown = sorted(set(names) - set(self._buttons))
        if unknown:
            raise UserError(f"no such button: {', '.join(unknown)}; the joypad has {', '.join(self._buttons)}")
        return np.array([name in names for name in self._buttons], dtype=np.uint8)

    def load(self, circuit: str) -> None:
        """Begin the race on `circuit`; the screen follows with the next step.

        Raises:
            UserError: there is no such start state, or it is not one of this ROM.
        """
        if circuit not in self._states:
            self._states[circuit] = self._read_start(circuit)
        self.restore(self._states[circuit])

    def _read_start(self, circuit: str) -> bytes:
        known = circuits(self.folder)
        if circuit not in known:
            raise UserError(f"no start state for circuit {circuit!r} in {self.folder}; there are: {', '.join(known) or 'none'}")
        file = self.folder / f"{circuit}.state"
        state = read_state(file)
        try:
            self.restore(state)
        except UserError as error:
            raise UserError(f"{file}: {error}") from error
        if self._told is not None and (found := self.data.lookup_value("build_id")) != self._told["build_id"]:
            raise UserError(
                f"{file}: made for another build of the ROM ({found:08x}, not {self._told['build_id']:08x}); build both together: make game"
            )
        return state

    def course(self, circuit: str) -> Course | None:
        """Where the road of `circuit` runs; None for a game that does not tell."""
        return None if self._told is None else Course([(x, y) for x, y, _ in self._told["circuits"][circuit]["gates"]])

    def start_at(self, section: int) -> None:
        """Put the kart at the beginning of `section`, standing, when the next step begins; the laps count from there."""
        if not self.game.start_section:
            raise UserError(f"{self.game.title} cannot begin at a section: its ROM has no such command")
        self.data.set_value("start_section", section + 1)

    def step(self, buttons: npt.NDArray[np.uint8], ticks: int = 1) -> None:
        """Hold `buttons` (uint8 [12], see `buttons`) for so many ticks of the game, in as few video frames as the ROM allows."""
        emulator = self._open()
        emulator.set_button_mask(buttons, 0)
        while ticks > 0:
            now = min(ticks, self.game.ticks_per_frame)
            if now != self._ticks and self.game.ticks_per_frame > 1:
                self.data.set_value("ticks", now)
                self._ticks = now
            emulator.step()
            ticks -= now

    def screen(self) -> npt.NDArray[np.uint8]:
        """The picture of the last video frame, uint8 [224, 256, 3]; a fresh array."""
        return self._open().get_screen()

    def race(self) -> dict[str, int]:
        """The race state, as raw as it stands in the console's memory; names and meanings are those of data.json."""
        self._open()
        return self.data.lookup_all()  # reads live memory: update_ram() would cost far more and add nothing

    def save(self) -> bytes:
        """The whole state of the console."""
        return self._open().get_state()

    def restore(self, state: bytes) -> None:
        """Go back to a saved state; the screen follows with the next step.

        Raises:
            UserError: the emulator does not take it.
        """
        if not self._open().set_state(state):
            raise UserError("the emulator does not take this state: it is damaged, or from another emulator")
        self._ticks = None

    @property
    def closed(self) -> bool:
        """Whether the emulator has been freed, by `close` or by a newer console."""
        return self._emulator is None

    def close(self) -> None:
        """Free the emulator. Closing twice is allowed."""
        self._emulator = None

    def _open(self) -> Any:
        if self._emulator is None:
            raise UserError(
                "this console is closed: stable-retro allows one emulator in a process, so opening a second one "
                "(another kartrl/Kart-v0) closes the first; give each its own process"
            )
        return self._emulator


def _told(folder: Path) -> dict[str, Any] | None:
    """What the bundled game's build tells of itself: its id, and the circuits' gates; None for a cartridge."""
    file = folder / "circuits.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
