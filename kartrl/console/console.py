"""An emulated console with a game: its buttons, memory, states and pictures. Several per process."""

import contextlib
import functools
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from kartrl.console.isolated_emulator import EmulatorLost, IsolatedEmulator
from kartrl.console.libretro import ALL, BUTTONS, ROWS, Emulator, Image
from kartrl.console.memory import Memory
from kartrl.console.roms import sha1
from kartrl.console.states import read_state, write_state
from kartrl.errors import UserError

SIGNATURE = 8  # bytes with which all states of an emulator begin; a NES's tell their size as well


class Kept(NamedTuple):
    """A start state in memory."""

    changed: int | None  # when its file was read, see `_changed`
    state: bytes  # compressed, as there may be hundreds in each of many processes; decompresses in 0.3 ms


class Console:
    """A console with a game.

    Args:
        core: the emulator, a libretro core.
        rom: the game.
        data: a data.json, the names of values in the console's memory; see `Memory`.
        base, word: see `Emulator` and `Memory`.
        isolated: whether the emulator runs in a separate process: if a start state crashes or hangs it, this console
            raises a UserError that names the state.
        fast: whether to take the core's shortcuts. With snes9x's the game does not boot, so that a state must be loaded
            first, and states saved by it are of no use.

    Raises:
        UserError: the core cannot be loaded or rejects the ROM, or `data` is invalid.
    """

    def __init__(
        self,
        core: Path,
        rom: Path,
        data: Path | None,
        base: int = 0,
        word: int = 1,
        isolated: bool = False,
        fast: bool = False,
    ) -> None:
        make = IsolatedEmulator if isolated else Emulator
        self.emulator: Emulator | IsolatedEmulator | None = make(core, rom, fast, base)
        try:
            sizes = {start: len(block) for start, block in self.emulator.memory.items()}
            self._memory = Memory(data, sizes, word)
        except UserError:
            self.close()
            raise
        self._source, self._rom = "this start state", rom
        self.states: dict[Path, Kept] = {}

    def buttons(self, names: Sequence[str]) -> int:
        """Encode held buttons as the bit mask for `run`."""
        if unknown := sorted(set(names) - set(BUTTONS)):
            raise UserError(f"no such button: {', '.join(unknown)}; the joypad has {', '.join(BUTTONS)}")
        return sum(1 << BUTTONS.index(name) for name in set(names))

    def load_state(self, file: Path) -> None:
        """Continue from the state in `file`, which is kept; the next frame updates the screen.

        Raises:
            UserError: it cannot be read, or see `begin`.
        """
        kept = self.states.get(file)
        if kept is None or _changed(file) not in (None, kept.changed):  # it may have been overwritten
            changed, state = _changed(file), read_state(file, self.rom_hash)
            self.begin(state, file)
            kept = self.states[file] = Kept(changed, zlib.compress(state, level=1))
        self._source = str(file)
        self.restore(zlib.decompress(kept.state))

    @functools.cached_property
    def rom_hash(self) -> str:
        """SHA-1 of the ROM, as in rom.sha."""
        return sha1(self._rom)

    def begin(self, state: bytes, source: Path) -> None:
        """Continue from a saved state.

        Args:
            source: its file, named in errors.

        Raises:
            UserError: the emulator rejects it or does not survive it, or it is not of this game.
        """
        self._source = str(source)
        if state[:SIGNATURE] != self.save()[:SIGNATURE]:  # some cores crash at what another one has saved
            self._reject()
        self.restore(state)

    def run(self, buttons: int, rows: int = ROWS) -> None:
        """Hold `buttons` (a bit mask) for one video frame, of which only the first `rows` rows need to be right."""
        emulator = self.opened()
        emulator.pressed = buttons
        with self.naming():
            emulator.run(rows)

    def screen(self, rows: slice = ALL, gray: bool = False) -> Image:
        """The last video frame, uint8 [H, W, 3], or [H, W] if `gray`, or some rows of it; a new array."""
        return self.opened().screen(rows, gray)

    def values(self) -> dict[str, int]:
        """The named values in the console's memory."""
        return self._memory.read(self.opened().memory)

    @property
    def outside(self) -> tuple[str, ...]:
        """Names of values whose addresses are not in the memory."""
        return self._memory.outside

    def set_value(self, name: str, value: int) -> None:
        """Write a named value to the console's memory."""
        self._memory.write(self.opened().memory, name, value)

    def read(self, address: int, size: int) -> bytes:
        return bytes(self._view(address, size))

    def write(self, address: int, data: bytes) -> None:
        self._view(address, len(data))[:] = data

    def _view(self, address: int, size: int) -> memoryview:
        """A part of the memory, which must lie in one block."""
        for start, block in self.opened().memory.items():
            if start <= address and address + size <= start + len(block):
                return memoryview(block).cast("B")[address - start : address - start + size]
        raise ValueError(f"no {size} bytes of memory at {address:#x}")

    def save(self) -> bytes:
        """Serialize the console's state."""
        with self.naming():
            return self.opened().save()

    def keep(self, file: Path) -> None:
        """Write the console's state to a file; see `write_state`."""
        write_state(file, self.save(), self.rom_hash)

    def restore(self, state: bytes) -> None:
        """Restore a saved state; the next frame updates the screen.

        Raises:
            UserError: the emulator rejects it.
        """
        with self.naming():
            restored = self.opened().restore(state)
        if not restored:
            self._reject()

    def _reject(self) -> NoReturn:
        raise UserError(
            f"{self._source}: the emulator rejects this state: it is damaged, or from another emulator, an older "
            "version of it or another game; choose another start state, or save it again"
        )

    def close(self) -> None:
        """Free the emulator. Closing twice is allowed."""
        if self.emulator is not None:
            self.emulator.close()
            self.emulator = None

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Context manager: name the start state in the error if the emulator is lost."""
        try:
            yield
        except EmulatorLost as error:
            raise EmulatorLost(f"{self._source}: {error}") from error

    def opened(self) -> Emulator | IsolatedEmulator:
        if self.emulator is None:
            raise UserError("this console is closed")
        return self.emulator


def _changed(file: Path) -> int | None:
    """Time of a file's last change, in nanoseconds; None if it is gone, as a run's circuits may be."""
    with contextlib.suppress(OSError):
        return file.stat().st_mtime_ns
    return None
