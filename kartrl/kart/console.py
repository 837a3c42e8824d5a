"""The emulated SNES with a race."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kartrl.console.console import Console
from kartrl.console.libretro import ALL, NONE, ROWS, Image
from kartrl.errors import UserError
from kartrl.kart.block import BANK, END, Block
from kartrl.kart.game import load_game
from kartrl.kart.game_files import BUILD, build_id, core_file, game_folder, integration_file, state_file

RAM = 0x7E0000  # address of the working memory on the console's bus
COMMANDS = ("start_section", "opponents")  # a frame that executes one of these has time for one tick only
STANDING = 0x80  # value of `ticks` at which the game renders but does not advance
GHOSTS, MOST_OPPONENTS = 0x80, 7  # bits of `opponents`: positions are written from outside; number of opponents
SPRITES, DEPTHS, APART, UNSEEN = 0x7E0684, 0x7E06C0, 8, 0xFFFF  # opp_sx and opp_depth of the bundled ROM, see ram.inc
LARGE = 0x200  # bit of a sprite's x: it has 32 pixels a side, not 16


class Place(NamedTuple):
    """Where a ghost is, a kart that is placed from outside and touches nobody."""

    x: int
    y: int
    angle: int  # 65536 a turn
    sections: int  # driven since the start


class KartConsole(Console):
    """An SNES with a race.

    Args:
        folder: the game's folder, or a name for `game_folder`.
        circuit: circuit to load.
        isolated: see `Console`.
        fast: whether to take the emulator's shortcuts, see `Console`, if the game drives the same with them.
    """

    def __init__(
        self, folder: Path | str, circuit: str | None = None, isolated: bool = False, fast: bool = False
    ) -> None:
        self.folder = game_folder(folder) if isinstance(folder, str) else folder
        self.game = load_game(integration_file(self.folder, "game.json"))
        self._build = build_id(self.folder) if (self.folder / BUILD).is_file() else None
        data, shortened = integration_file(self.folder, "data.json"), fast and self.game.shortcuts
        super().__init__(core_file(), self.folder / "rom.sfc", data, RAM, isolated=isolated, fast=shortened)
        if self._memory.outside:
            self.close()
            raise UserError(f"{data}: not in the console's memory: {', '.join(self._memory.outside)}")
        self._adjustable = "ticks" in self._memory
        self._files: dict[str, Path] = {}  # of the circuits loaded so far
        self.ticks: int | None = None  # last value written to the ROM; None: unknown
        self._dark: int | None = None  # likewise
        self._commanded = False  # whether the next frame executes one of the `COMMANDS`
        self._at_once: int | None = None  # maximum ticks per frame; None: not known yet, depends on the opponents
        if circuit is not None:
            try:
                self.load(circuit)
            except UserError:
                self.close()
                raise

    def load(self, circuit: str) -> None:
        """Start a race on `circuit`, a name or the path of a `.state` file; the next step updates the screen.

        Raises:
            UserError: there is no such start state, or it is for another ROM.
        """
        file = self._files.get(circuit) or state_file(self.folder, circuit)
        self.load_state(file)
        self._files[circuit] = file

    def begin(self, state: bytes, source: Path) -> None:
        """See `Console`; the state must be of this build of the ROM, and of a race.

        Raises:
            UserError: the emulator rejects it or does not survive it, or it is for another ROM or no race.
        """
        super().begin(state, source)
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
        return None if self._build is None else Block.unpack(self.read(BANK, END))

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

    @property
    def shows_ghosts(self) -> bool:
        """Whether the ROM can draw ghosts."""
        return "opponents" in self._memory

    def place_ghosts(self, ghosts: Sequence[Place]) -> None:
        """Show ghosts, 1 to `MOST_OPPONENTS`, from the next step on; see `shows_ghosts`."""
        self.set_value("opponents", GHOSTS | len(ghosts))
        for number, ghost in enumerate(ghosts, 1):
            for name, value in zip(("x", "y", "angle", "progress"), ghost, strict=True):
                self.set_value(f"opponent{number}_{name}", value)

    def seen_ghosts(self, number: int) -> list[tuple[int, int] | None]:
        """Where the first `number` ghosts are on the screen, (x of the middle, y of the top); None: out of view."""
        seen = list[tuple[int, int] | None]()
        for index in range(number):
            x, y = struct.unpack("<HH", self.read(SPRITES + APART * index, 4))
            (depth,) = struct.unpack("<H", self.read(DEPTHS + APART * index, 2))
            left = (x & 0x1FF) - (0x200 if x & 0x100 else 0)
            seen.append(None if depth == UNSEEN else (left + (16 if x & LARGE else 8), y))
        return seen

    def step(self, buttons: int, ticks: int = 1, rows: slice = ALL) -> None:
        """Hold `buttons` (a bit mask) for `ticks` ticks of the game, in as few video frames as the ROM allows.

        Other rows of the screen than `rows` may stay black, which is faster.
        """
        if self._at_once is None:
            self._at_once = self._most_ticks(buttons)
        while ticks > 0:
            now = 1 if self._commanded else min(ticks, self._at_once)
            self._commanded = False
            ticks -= now
            self._run(buttons, now, NONE if ticks else rows)

    def _most_ticks(self, buttons: int) -> int:
        """Maximum ticks per frame; if opponents are still to be placed, places them in a frame without ticks."""
        opponents = self.race().get("opponents", 0)
        number = opponents & MOST_OPPONENTS
        if number == 0:
            return self.game.ticks_per_frame
        if self._commanded and opponents < GHOSTS:
            self._run(buttons, STANDING, NONE)
            self._commanded = False
        return min(self.game.ticks_per_frame, self.game.ticks_among_opponents[number - 1])

    def _run(self, buttons: int, ticks: int, rows: slice) -> None:
        """Emulate one frame with this many ticks, of which these rows are looked at."""
        if ticks != self.ticks and self._adjustable:
            self.set_value("ticks", ticks)
            self.ticks = ticks
        drawn = ROWS
        if self.game.ground_rows is not None:
            dark, drawn = _dark(rows, *self.game.ground_rows)
            if dark != self._dark:
                self.set_value("dark", dark)
                self._dark = dark
        self.run(buttons, drawn)

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
        return self.values()

    def set_value(self, name: str, value: int) -> None:
        """Write a value of the race state to the console's memory."""
        if name in COMMANDS:
            self._commanded, self._at_once = True, None
        super().set_value(name, value)

    def restore(self, state: bytes) -> None:
        super().restore(state)
        self.ticks = self._dark = self._at_once = None
        self._commanded = False


def _dark(rows: slice, ground: int, below: int) -> tuple[int, int]:
    """The ROM's `dark` if only `rows` are looked at, and the row at which drawing ends then.

    The ground is from row `ground` to row `below`.
    """
    if rows == NONE:
        return 4, 0
    above = 2 * (rows.start is not None and rows.start >= ground)
    return (above + 1, below) if rows.stop is not None and rows.stop <= below else (above, ROWS)
