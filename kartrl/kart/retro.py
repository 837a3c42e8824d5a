"""The emulated SNES console with a game."""

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kartrl.console.isolated_emulator import EmulatorLost, IsolatedEmulator
from kartrl.console.libretro import ALL, BUTTONS, NONE, ROWS, Emulator, Image
from kartrl.errors import UserError
from kartrl.kart.block import BANK, END, Block
from kartrl.kart.cartridge import read_state
from kartrl.kart.game_files import BUILD, build_id, core_file, game_folder, integration_file, state_file
from kartrl.kart.memory import RAM, Memory
from kartrl.kart.race import load_game

COMMANDS = ("start_section", "opponents")  # a frame that executes one of these has time for one tick only
STANDING = 0x80  # value of `ticks` at which the game renders but does not advance
GHOSTS, MOST_OPPONENTS = 0x80, 7  # bits of `opponents`: positions are written from outside; number of opponents


class Kept(NamedTuple):
    """A start state in memory."""

    file: Path
    changed: int | None  # when it was read, see `_changed`
    state: bytes  # compressed, as there may be hundreds in each of many processes; decompresses in 0.3 ms


def _changed(file: Path) -> int | None:
    """Time of a file's last change, in nanoseconds; None if it is gone, as a run's circuits may be."""
    with contextlib.suppress(OSError):
        return file.stat().st_mtime_ns
    return None


class Console:
    """An SNES console with a game.

    Args:
        folder: the game's folder, or a name for `game_folder`.
        circuit: circuit to load.
        isolated: whether the emulator runs in a separate process: if a start state crashes or hangs it, this console
            raises a UserError that names the state.
        fast: whether to take the emulator's shortcuts if the game drives the same with them. It does not boot then, so
            that a circuit must be loaded first, and states saved by it are of no use.
    """

    def __init__(
        self, folder: Path | str, circuit: str | None = None, isolated: bool = False, fast: bool = False
    ) -> None:
        self.folder = game_folder(folder) if isinstance(folder, str) else folder
        self.game = load_game(integration_file(self.folder, "game.json"))
        self._build = build_id(self.folder) if (self.folder / BUILD).is_file() else None
        self._memory = Memory(integration_file(self.folder, "data.json"))
        make = IsolatedEmulator if isolated else Emulator
        self._emulator: Emulator | IsolatedEmulator | None = make(
            core_file(), self.folder / "rom.sfc", fast and self.game.shortcuts
        )
        self._source = "this start state"
        self._states: dict[str, Kept] = {}
        self._ticks: int | None = None  # last value written to the ROM; None: unknown
        self._dark: int | None = None  # likewise
        self._commanded = False  # whether the next frame executes one of the `COMMANDS`
        self._at_once: int | None = None  # maximum ticks per frame; None: not known yet, depends on the opponents
        if circuit is not None:
            try:
                self.load(circuit)
            except UserError:
                self.close()
                raise

    def buttons(self, names: Sequence[str]) -> int:
        """Encode held buttons as the bit mask for `step`."""
        if unknown := sorted(set(names) - set(BUTTONS)):
            raise UserError(f"no such button: {', '.join(unknown)}; the joypad has {', '.join(BUTTONS)}")
        return sum(1 << BUTTONS.index(name) for name in set(names))

    def load(self, circuit: str) -> None:
        """Start a race on `circuit`, a name or the path of a `.state` file; the next step updates the screen.

        Raises:
            UserError: there is no such start state, or it is for another ROM.
        """
        kept = self._states.get(circuit)
        if kept is None or _changed(kept.file) not in (None, kept.changed):  # the player may have overwritten it
            file = state_file(self.folder, circuit)
            changed, state = _changed(file), read_state(file)
            self.begin(state, file)
            kept = self._states[circuit] = Kept(file, changed, zlib.compress(state, level=1))
        self._source = circuit
        self.restore(zlib.decompress(kept.state))

    def begin(self, state: bytes, source: Path) -> None:
        """Start from a saved state.

        Args:
            source: its file, named in errors.

        Raises:
            UserError: the emulator rejects it or does not survive it, or it is for another ROM or no race.
        """
        self._source = str(source)
        self.restore(state)
        if self._build is None:
            return
        if (found := self.race()["build_id"]) != self._build:
            reason = f"made for another build of the ROM ({found:08x}, not {self._build:08x}); build it again"
            raise UserError(f"{source}: {reason}")
        try:
            block = self.block()
        except ValueError as error:
            raise UserError(f"{source}: damaged: it contains no circuit") from error
        if block is None or self.race()["checkpoint_num"] != len(block.gates):
            raise UserError(f"{source}: damaged: its circuit is not the one being driven")

    def block(self) -> Block | None:
        """The current circuit, from the console's memory; None for a cartridge."""
        return (
            None
            if self._build is None
            else Block.unpack(bytes(memoryview(self._open().ram)[BANK - RAM : BANK - RAM + END]))
        )

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to the console's memory, 7E0000 to 7FFFFF."""
        memoryview(self._open().ram).cast("B")[address - RAM : address - RAM + len(data)] = data

    def start_at(self, section: int) -> None:
        """Place the kart at the beginning of `section`, at rest, with the next step; laps count from there."""
        if not self.game.start_section:
            raise UserError(f"{self.game.title} cannot start at a section: its ROM has no such command")
        self.set_value("start_section", section + 1)

    def set_opponents(self, number: int) -> None:
        """Place `number` scripted karts on the road ahead with the next step; 0 removes them."""
        if number > self.game.opponents:
            raise UserError(f"{self.game.title}: its ROM allows at most {self.game.opponents} opponents, not {number}")
        self.set_value("opponents", number)

    def step(self, buttons: int, ticks: int = 1, rows: slice = ALL) -> None:
        """Hold `buttons` (a bit mask) for `ticks` ticks of the game, in as few video frames as the ROM allows.

        Other rows of the screen than `rows` may stay black, which is faster.
        """
        emulator = self._open()
        emulator.pressed = buttons
        if self._at_once is None:
            self._at_once = self._most_ticks()
        while ticks > 0:
            now = 1 if self._commanded else min(ticks, self._at_once)
            self._commanded = False
            ticks -= now
            self._run(now, NONE if ticks else rows)

    def _most_ticks(self) -> int:
        """Maximum ticks per frame; if opponents are still to be placed, places them in a frame without ticks."""
        opponents = self.race().get("opponents", 0)
        number = opponents & MOST_OPPONENTS
        if number == 0:
            return self.game.ticks_per_frame
        if self._commanded and opponents < GHOSTS:
            self._run(STANDING, NONE)
            self._commanded = False
        return min(self.game.ticks_per_frame, self.game.ticks_among_opponents[number - 1])

    def _run(self, ticks: int, rows: slice) -> None:
        """Emulate one frame with this many ticks, of which these rows are looked at."""
        if ticks != self._ticks and "ticks" in self._memory:
            self.set_value("ticks", ticks)
            self._ticks = ticks
        drawn = ROWS
        if self.game.ground_rows is not None:
            dark, drawn = _dark(rows, *self.game.ground_rows)
            if dark != self._dark:
                self.set_value("dark", dark)
                self._dark = dark
        with self._named():
            self._open().run(drawn)

    def screen(self, rows: slice = ALL, gray: bool = False) -> Image:
        """The last video frame, uint8 [224, 256, 3], or [224, 256] if `gray`, or some rows of it; a new array."""
        return self._open().screen(rows, gray)

    def picture(self) -> Image:
        """`screen` for display: fills the lines that the console leaves black while it writes to video memory."""
        screen = self.screen()
        if self.game.ground_rows is None:
            return screen
        ground = self.game.ground_rows[1]
        lit = np.flatnonzero(screen[:ground].any((1, 2)))
        if len(lit):
            rows = np.arange(ground)
            screen[:ground] = screen[lit[np.maximum(np.searchsorted(lit, rows, side="right") - 1, 0)]]
            screen[: lit[0]] = np.median(screen[lit[0]], axis=0)  # the sky's colour, without clouds and hills
        return screen

    def race(self) -> dict[str, int]:
        """The raw race state from the console's memory; data.json defines its names."""
        return self._memory.read(self._open().ram)

    def set_value(self, name: str, value: int) -> None:
        """Write a value of the race state to the console's memory."""
        if name in COMMANDS:
            self._commanded, self._at_once = True, None
        self._memory.write(self._open().ram, name, value)

    def save(self) -> bytes:
        """Serialize the console's state."""
        with self._named():
            return self._open().save()

    def restore(self, state: bytes) -> None:
        """Restore a saved state; the next step updates the screen.

        Raises:
            UserError: the emulator rejects it.
        """
        with self._named():
            restored = self._open().restore(state)
        if not restored:
            raise UserError(f"{self._source}: the emulator rejects this state: it is damaged, or from another emulator")
        self._ticks = self._dark = self._at_once = None
        self._commanded = False

    def close(self) -> None:
        """Free the emulator. Closing twice is allowed."""
        if self._emulator is not None:
            self._emulator.close()
            self._emulator = None

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Context manager: name the start state in the error if the emulator is lost."""
        try:
            yield
        except EmulatorLost as error:
            raise EmulatorLost(f"{self._source}: {error}") from error

    def _open(self) -> Emulator | IsolatedEmulator:
        if self._emulator is None:
            raise UserError("this console is closed")
        return self._emulator


def _dark(rows: slice, ground: int, below: int) -> tuple[int, int]:
    """The ROM's `dark` if only `rows` are looked at, and the row at which drawing ends then.

    The ground is from row `ground` to row `below`.
    """
    if rows == NONE:
        return 4, 0
    above = 2 * (rows.start is not None and rows.start >= ground)
    return (above + 1, below) if rows.stop is not None and rows.stop <= below else (above, ROWS)
