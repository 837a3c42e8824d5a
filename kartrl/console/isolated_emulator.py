"""An emulator in a separate process: start states and movies from others may crash or hang the core."""

import ctypes
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kartrl import faults
from kartrl.console.libretro import ALL, ROWS, STATE_LIMIT, Emulator, Frame, Image, converted
from kartrl.errors import UserError
from kartrl.processes.child import tell_exit
from kartrl.processes.spawn import spawn, start_method

RAM_LIMIT = 8 * 1024 * 1024  # maximum bytes of a console's working memory
FRAME_BYTES = 2 * 1024 * 512  # maximum bytes of a frame; more than snes9x's largest
START_SECONDS = 60.0  # for the process to start, on a busy machine
END_SECONDS = 5.0  # for a process to end after it was killed or its pipe was closed
WAIT_SECONDS, WAITS = 1.0, 10  # for an answer; short waits, so that time suspended (Ctrl-Z) costs one at most


class EmulatorLost(UserError):
    """The process crashed, or did not answer in time."""


class Shared(NamedTuple):
    """Shared memory of both processes, uint8, so that a call costs one short message each way.

    A message larger than the pipe's buffer could block forever if the other process was stopped meanwhile.
    """

    ram: Any  # a copy of the console's working memory
    pixels: Any  # of the last frame
    state: Any  # saved, or to be restored


class IsolatedEmulator:
    """An `Emulator` in a separate process, with the same methods; not for use in a daemonic process.

    If the core crashes or hangs, or its process is stopped, the process is ended, and this call and all later ones
    raise `EmulatorLost`.

    Args:
        make: makes the emulator there; called with the arguments before it, and pickled.

    Raises:
        UserError: as `Emulator`.
    """

    def __init__(
        self, core: Path, rom: Path, fast: bool = False, base: int = 0, make: Callable[..., Emulator] = Emulator
    ) -> None:
        self.pressed = 0
        """Buttons held, as in `Emulator`."""
        context: Any = start_method()
        self._shared = Shared(
            *(context.RawArray(ctypes.c_uint8, size) for size in (RAM_LIMIT, FRAME_BYTES, STATE_LIMIT))
        )
        self._pipe, theirs = context.Pipe()
        self.process = spawn(context, "emulator", serve, partial(make, core, rom, fast, base), self._shared, theirs)
        theirs.close()
        self._lost = ""  # why there are no more answers; "" while there are
        size, blocks, frame = self._receive(waits=round(START_SECONDS / WAIT_SECONDS))
        self.ram = memoryview(self._shared.ram)[:size]
        """A copy of the console's working memory; changes take effect with the next call."""
        self.memory = {start: memoryview(self._shared.ram)[first:end] for start, first, end in blocks}
        """Copies of the memory, as in `Emulator`; changes take effect if they are part of the working memory."""
        self._frame = Frame(*frame)

    hides = False
    """See `Emulator`."""

    def run(self, rows: int = ROWS) -> None:
        """Emulate one video frame, of which only the first `rows` rows need to be right."""
        self.ask("run", rows)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of the emulator, which may change memory and screen; returns what it returns, pickled."""
        result, frame = self._call(name, self.pressed, *arguments)
        self._frame = Frame(*frame)
        return result

    def screen(self, rows: slice = ALL, gray: bool = False) -> Image:
        """The last video frame or some rows of it, as in `Emulator`."""
        return converted(self._frame.pixels(self._shared.pixels)[rows], gray)

    def save(self) -> bytes:
        """Serialize the console's state."""
        size = self._call("save")
        return bytes(memoryview(self._shared.state)[:size])

    def restore(self, state: bytes) -> bool:
        """Restore a saved state; the screen is updated with the next frame. Returns False if the core rejects it."""
        if len(state) > STATE_LIMIT:
            return False
        ctypes.memmove(self._shared.state, state, len(state))
        return bool(self._call("restore", len(state)))

    def close(self) -> None:
        """End the process. Closing twice is allowed."""
        self._lost = self._lost or "is closed"
        self.process.kill()
        self.process.join(END_SECONDS)
        self._pipe.close()

    def _call(self, name: str, *arguments: Any) -> Any:
        if self._lost:
            raise EmulatorLost(f"the emulator {self._lost}")
        self._lost = "was interrupted"  # remains if a signal handler raises before the answer arrives
        try:
            self._pipe.send((name, *arguments))
        except OSError:  # the process has ended
            self._lose()
        return self._receive(round(faults.value("emulator", WAITS)))

    def _receive(self, waits: int) -> Any:
        try:
            if not any(self._pipe.poll(WAIT_SECONDS) for _ in range(waits)):
                self._lose(f"hangs: no answer within {waits * WAIT_SECONDS:g} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._lose()
        if isinstance(answer, UserError):
            self.close()
            raise answer
        self._lost = ""
        return answer

    def _lose(self, cause: str = "") -> NoReturn:
        """End the process and raise `EmulatorLost` with the cause; "": the process ended by itself."""
        if not cause:
            self.process.join(END_SECONDS)
            cause = f"crashed ({tell_exit(self.process.exitcode)})"
        self._lost = cause
        self.close()
        raise EmulatorLost(f"the emulator {cause}")


def serve(make: Callable[[], Emulator], shared: Shared, pipe: Connection) -> None:
    """Main function of the emulator's process: answers calls until the other end of the pipe is closed."""
    try:
        emulator = make()
        size = len(emulator.ram)
        pipe.send((size, _layout(emulator), _share(emulator, shared)))
        while True:
            name, *arguments = pipe.recv()
            ctypes.memmove(emulator.ram, shared.ram, size)
            if name == "save":
                state = emulator.save()
                memoryview(shared.state).cast("B")[: len(state)] = state
                answer: Any = len(state)
            elif name == "restore":
                (length,) = arguments
                answer = emulator.restore(bytes(memoryview(shared.state)[:length]))
                _share_memory(emulator, shared)
            else:
                emulator.pressed, *others = arguments
                answer = getattr(emulator, name)(*others), _share(emulator, shared)
            pipe.send(answer)
    except UserError as error:
        pipe.send(error)
    except (EOFError, ConnectionError):  # reset, where what was sent has not been read
        return


def _share(emulator: Emulator, shared: Shared) -> Frame:
    """Copy memory and screen to the shared memory."""
    frame = emulator.frame
    if _layout(emulator)[-1][2] > RAM_LIMIT or frame.size > FRAME_BYTES:
        raise UserError("the emulator's memory or screen is too large for a process of its own")
    _share_memory(emulator, shared)
    ctypes.memmove(shared.pixels, frame.address, frame.size)
    return frame


def _layout(emulator: Emulator) -> list[tuple[int, int, int]]:
    """First address of each block of memory, and where it begins and ends in the shared memory.

    The working memory is first there, then the blocks that are not part of it.
    """
    ram, size = ctypes.addressof(emulator.ram), len(emulator.ram)
    blocks, end = [], size
    for start, block in emulator.memory.items():
        first = ctypes.addressof(block) - ram
        if not 0 <= first <= size - len(block):
            first, end = end, end + len(block)
        blocks.append((start, first, first + len(block)))
    return blocks or [(0, 0, size)]


def _share_memory(emulator: Emulator, shared: Shared) -> None:
    """Copy memory to the shared memory."""
    size = len(emulator.ram)
    ctypes.memmove(shared.ram, emulator.ram, size)
    for start, first, end in _layout(emulator):
        if first >= size:
            ctypes.memmove(ctypes.byref(shared.ram, first), emulator.memory[start], end - first)
