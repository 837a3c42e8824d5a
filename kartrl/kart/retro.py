"""Drives an SNES with a game in it, and finds the games and the emulator, which stable-retro brings."""

import importlib.util
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kartrl.errors import UserError
from kartrl.kart import cartridge
from kartrl.kart.block import BANK, END, Block
from kartrl.kart.cartridge import read_state
from kartrl.kart.libretro import ALL, BUTTONS, Emulator
from kartrl.kart.race import load_game

GAMES = Path(__file__).parent / "games"
BUNDLED = "KartRL-Snes"
BUILD = "build.json"  # a cartridge has none
RAM = 0x7E0000  # the address at which the console sees its working memory
COMMANDS = ("start_section", "opponents")  # their work leaves the frame in which it is done time for one tick only


def game_folder(game: str) -> Path:
    """The folder of the game that `auto`, `bundled` or `cartridge` means here; it holds the ROM and the start states.

    Raises:
        UserError: the game is not there, or there is no emulator for this platform.
    """
    core_file()
    own = cartridge.folder()
    has_own = (own / "rom.sfc").is_file()
    if game == "cartridge" and not has_own:
        raise UserError(
            f"no cartridge in {own}: import your own ROM with `kartrl import-rom FILE`, or set environment.game=bundled"
        )
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


def state_file(folder: Path, circuit: str) -> Path:
    """The start state of `circuit`: its name in the game's `folder`, or the path of a `.state` file.

    Raises:
        UserError: there is none.
    """
    if circuit.endswith(".state"):
        if not (file := Path(circuit)).is_file():
            raise UserError(f"{circuit}: there is no such start state")
        return file
    known = circuits(folder)
    if circuit not in known:
        raise UserError(f"no start state for circuit {circuit!r} in {folder}; there are: {', '.join(known) or 'none'}")
    return folder / f"{circuit}.state"


def integration_file(folder: Path, name: str) -> Path:
    """A file that describes the game in `folder`: there or, for an imported cartridge, in this package."""
    return folder / name if (folder / name).is_file() else GAMES / folder.name / name


class Console:
    """An SNES with a game in it.

    Args:
        folder: the game's folder, or a name for `game_folder`.
        circuit: the circuit to load at once.
    """

    def __init__(self, folder: Path | str, circuit: str | None = None) -> None:
        self.folder = game_folder(folder) if isinstance(folder, str) else folder
        self.game = load_game(integration_file(self.folder, "game.json"))
        self._build = build_id(self.folder) if (self.folder / BUILD).is_file() else None
        self._memory = Memory(integration_file(self.folder, "data.json"))
        self._emulator: Emulator | None = Emulator(core_file(), self.folder / "rom.sfc")
        self._states: dict[str, bytes] = {}  # packed: there may be hundreds, in each of many processes
        self._ticks: int | None = None  # what the ROM was last told; None: unknown
        self._map_shown: bool | None = None  # likewise
        self._commanded = False  # whether the next frame has one of the `COMMANDS` to do
        if circuit is not None:
            self.load(circuit)

    def buttons(self, names: Sequence[str]) -> int:
        """The joypad with these buttons held, as `step` takes it."""
        if unknown := sorted(set(names) - set(BUTTONS)):
            raise UserError(f"no such button: {', '.join(unknown)}; the joypad has {', '.join(BUTTONS)}")
        return sum(1 << BUTTONS.index(name) for name in set(names))

    def load(self, circuit: str) -> None:
        """Begin the race on `circuit`, a name or the path of a `.state` file; the screen follows with the next step.

        Raises:
            UserError: there is no such start state, or it is not one of this ROM.
        """
        if circuit not in self._states:
            self._states[circuit] = zlib.compress(self._read_start(circuit), level=1)  # unpacks in 0.3 ms
        self.restore(zlib.decompress(self._states[circuit]))

    def _read_start(self, circuit: str) -> bytes:
        file = state_file(self.folder, circuit)
        state = read_state(file)
        try:
            self.begin(state)
        except UserError as error:
            raise UserError(f"{file}: {error}") from error
        return state

    def begin(self, state: bytes) -> None:
        """Begin from a state that was saved some time ago.

        Raises:
            UserError: the emulator does not take it, or it is not one of this ROM.
        """
        self.restore(state)
        if self._build is not None and (found := self.race()["build_id"]) != self._build:
            raise UserError(f"made for another build of the ROM ({found:08x}, not {self._build:08x}); make it anew")

    def block(self) -> Block | None:
        """The circuit that is being driven, as it lies in the console's memory; None for a cartridge."""
        return (
            None
            if self._build is None
            else Block.unpacked(bytes(memoryview(self._open().ram)[BANK - RAM : BANK - RAM + END]))
        )

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the console's memory, 7E0000 to 7FFFFF."""
        memoryview(self._open().ram).cast("B")[address - RAM : address - RAM + len(data)] = data

    def start_at(self, section: int) -> None:
        """Put the kart at the beginning of `section`, standing, when the next step begins; the laps count from there."""
        if not self.game.start_section:
            raise UserError(f"{self.game.title} cannot begin at a section: its ROM has no such command")
        self.set_value("start_section", section + 1)

    def set_opponents(self, number: int) -> None:
        """Put so many scripted karts on the road before the kart, when the next step begins; 0 takes them away."""
        if number > self.game.opponents:
            raise UserError(f"{self.game.title}: its ROM can have {self.game.opponents} opponents, not {number}")
        self.set_value("opponents", number)

    def step(self, buttons: int, ticks: int = 1, show_map: bool = True) -> None:
        """Hold `buttons` (see `buttons`) for so many ticks of the game, in as few video frames as the ROM allows.

        Without the map, the rows of the picture from `Game.map_top` on may stay dark: it costs time to draw them.
        """
        emulator = self._open()
        emulator.pressed = buttons
        if show_map is not self._map_shown and self.game.map_top is not None:
            self.set_value("no_map", not show_map)
        self._map_shown = show_map
        while ticks > 0:
            now = 1 if self._commanded else min(ticks, self.game.ticks_per_frame)
            self._commanded = False
            if now != self._ticks and self.game.ticks_per_frame > 1:
                self.set_value("ticks", now)
                self._ticks = now
            emulator.run()
            ticks -= now

    def screen(self, rows: slice = ALL) -> npt.NDArray[np.uint8]:
        """The picture of the last video frame, uint8 [224, 256, 3], or some rows of it; a fresh array."""
        return self._open().screen(rows)

    def race(self) -> dict[str, int]:
        """The race state, as raw as it stands in the console's memory; names and meanings are those of data.json."""
        return self._memory.read(self._open().ram)

    def set_value(self, name: str, value: int) -> None:
        """Write a number of the race state into the console's memory."""
        self._commanded |= name in COMMANDS
        self._memory.write(self._open().ram, name, value)

    def save(self) -> bytes:
        """The whole state of the console."""
        return self._open().save()

    def restore(self, state: bytes) -> None:
        """Go back to a saved state; the screen follows with the next step.

        Raises:
            UserError: the emulator does not take it.
        """
        if not self._open().restore(state):
            raise UserError("the emulator does not take this state: it is damaged, or from another emulator")
        self._ticks = self._map_shown = None
        self._commanded = False

    def close(self) -> None:
        """Free the emulator. Closing twice is allowed."""
        if self._emulator is not None:
            self._emulator.close()
            self._emulator = None

    def _open(self) -> Emulator:
        if self._emulator is None:
            raise UserError("this console is closed")
        return self._emulator


class Memory:
    """The places of a race state in the console's memory, as stable-retro's data.json names them.

    Raises:
        UserError: the file cannot be read, or names a place or a type that is not there.
    """

    def __init__(self, file: Path) -> None:
        try:
            info: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["info"]
            places = {name: (place["address"] - RAM, place["type"]) for name, place in info.items()}
            self._types = {name: np.dtype(kind.replace("d", "u")) for name, (_, kind) in places.items()}
            self._offsets = {name: offset for name, (offset, _) in places.items()}
            self._decimal = tuple(name for name, (_, kind) in places.items() if "d" in kind)  # two digits in a byte
            self._record = np.dtype(
                {"names": [*places], "formats": [*self._types.values()], "offsets": [*self._offsets.values()]}
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{file}: cannot read where the race state stands ({error})") from error

    def read(self, ram: Any) -> dict[str, int]:
        """All numbers, from a buffer that holds the memory."""
        values = dict(zip(self._offsets, np.frombuffer(ram, self._record, 1).item(), strict=True))
        for name in self._decimal:
            values[name] = 10 * (values[name] >> 4) + (values[name] & 15)
        return values

    def write(self, ram: Any, name: str, value: int) -> None:
        """Put one number, not a decimal one, into a buffer that holds the memory."""
        np.frombuffer(ram, self._types[name], 1, self._offsets[name])[0] = value


def core_file() -> Path:
    """The SNES core that stable-retro brings.

    Raises:
        UserError: stable-retro is not installed.
    """
    found = importlib.util.find_spec("stable_retro")
    if found is None or found.origin is None:
        raise UserError(
            "the SNES emulator, stable-retro, is not installed; it exists for Linux on x86-64 and macOS on arm64 only. "
            "Without it the kart cannot be driven, but other environments train: --set environment.id=CartPole-v1"
        )
    return Path(found.origin).parent / "cores" / f"snes9x_libretro.{'dylib' if sys.platform == 'darwin' else 'so'}"


def build_id(folder: Path) -> int:
    """The number of the bundled game's build."""
    return int(json.loads((folder / BUILD).read_text(encoding="utf-8"))["build_id"])
