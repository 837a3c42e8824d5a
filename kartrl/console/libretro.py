"""Binding to emulator cores through libretro's C interface (libretro.h), with several emulators per process.

stable-retro provides the core, the names of memory addresses and the format of states; its own binding allows only
one emulator per process, which rules out batched steps. A core keeps its state in global variables, so each emulator
here loads its own copy of the library.
"""

import ctypes
import functools
import os
import shutil
import tempfile
from ctypes import POINTER, c_bool, c_char_p, c_int16, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from kartrl.console import core_patches
from kartrl.console.core_patches import Plan, Shortcuts
from kartrl.console.core_questions import Block, CoreQuestions
from kartrl.console.genesis_shortcuts import GENESIS
from kartrl.console.snes9x_shortcuts import SNES9X
from kartrl.errors import UserError
from kartrl.processes.interrupts import defer_ctrl_c, held

Image = npt.NDArray[np.uint8]  # named, as each evaluation of the expression takes 7 us
SYSTEM_RAM = 2
ALL, NONE = slice(None), slice(0)  # rows of the screen
ROWS = 239  # of the tallest screen that is not interlaced
# Prototypes of libretro.h: environment, video_refresh, audio_sample, audio_sample_batch, input_poll, input_state.
CALLBACKS = {
    "environment": ctypes.CFUNCTYPE(c_bool, c_uint, c_void_p),
    "video_refresh": ctypes.CFUNCTYPE(None, c_void_p, c_uint, c_uint, c_size_t),
    "audio_sample": ctypes.CFUNCTYPE(None, c_int16, c_int16),
    "audio_sample_batch": ctypes.CFUNCTYPE(c_size_t, c_void_p, c_size_t),
    "input_poll": ctypes.CFUNCTYPE(None),
    "input_state": ctypes.CFUNCTYPE(c_int16, c_uint, c_uint, c_uint, c_uint),
}
# Called ten times per frame, to no effect here: a function of C's library, so that no call enters Python.
IGNORED = ("audio_sample", "audio_sample_batch", "input_poll")
BUTTONS = (
    "B",
    "Y",
    "SELECT",
    "START",
    "UP",
    "DOWN",
    "LEFT",
    "RIGHT",
    "A",
    "X",
    "L",
    "R",
)  # RETRO_DEVICE_ID_JOYPAD_*, from 0
# Cores whose states are not complete: the console is switched off and on before one is restored, as by stable-retro.
RESTARTED = (b"Stella",)
# Cores that leave what was on the heap in the memory of cartridges: it is cleared, or no two boots would be the same.
UNCLEARED = {b"FCEUmm": 0x6000}  # its first address
PAD_BITS = 16  # of each joypad in `Emulator.pressed`
ALL_BUTTONS = 256  # RETRO_DEVICE_ID_JOYPAD_MASK: all of a joypad's at once
STATE_LIMIT = 4 * 1024 * 1024  # maximum bytes of an unpacked start state; stable-retro's are below half a MiB


CONVERSIONS = {
    (2, False): cv2.COLOR_BGR5652RGB,
    (2, True): cv2.COLOR_BGR5652GRAY,
    (4, False): cv2.COLOR_BGRA2RGB,
    (4, True): cv2.COLOR_BGRA2GRAY,
}  # of frames, by bytes per pixel and whether the result is gray


class _GameInfo(ctypes.Structure):
    _fields_ = [("path", c_char_p), ("data", c_char_p), ("size", c_size_t), ("meta", c_char_p)]


class _SystemInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("version", c_char_p),
        ("extensions", c_char_p),
        ("needs_path", c_bool),
        ("blocks_extraction", c_bool),
    ]


class Frame(NamedTuple):
    """Location of a video frame in memory, RGB565 or XRGB8888."""

    address: int
    width: int  # pixels
    height: int
    pitch: int  # bytes from one row to the next
    pixel_bytes: int = 2  # bytes of a pixel

    @property
    def size(self) -> int:
        return self.height * self.pitch

    def pixels(self, memory: Any) -> Image:
        """The frame's pixels, uint8 [height, width, `pixel_bytes`], in a buffer that begins with it."""
        shape = (self.height, self.pitch // self.pixel_bytes, self.pixel_bytes)
        return np.frombuffer(memory, np.uint8, self.size).reshape(shape)[:, : self.width]


class Copy(NamedTuple):
    """A loaded copy of a core."""

    library: ctypes.CDLL
    shortcuts: Shortcuts | None


class Emulator:
    """A core with a loaded game. Must be closed, so that its copy of the core can be reused.

    Args:
        fast: whether to take the `shortcuts`, which halve the time of a frame, if the core has them. With snes9x's a
            game does not boot, but continues from a saved state.
        base: address of the working memory on the console's bus, for a core that does not describe its memory.

    Raises:
        UserError: the core cannot be loaded, or rejects the ROM.
    """

    # copies for reuse: they cannot be unloaded safely. For the same game only, as they keep something of one
    _idle: dict[tuple[Path, Path, bool], list[Copy]] = {}  # noqa: RUF012

    def __init__(self, core: Path, rom: Path, fast: bool = False, base: int = 0) -> None:
        self.pressed = 0
        """Buttons held: bit `PAD_BITS` * p + i for button i of joypad p; an SNES's are `BUTTONS`."""
        self.frame = Frame(0, 0, 0, 0)
        """The last video frame; valid until the next."""
        self._pixels = np.zeros((0, 0, 2), np.uint8)  # a view of it, uint8 [height, width, pixel_bytes]
        self._rom, self._base = rom, base
        self._mark: Any = None  # a buffer with a state
        self._spare = self._idle.setdefault((core, rom, fast), [])
        self._copy = self._spare.pop() if self._spare else _copy(core, fast)
        self._shortcuts = self._copy.shortcuts
        ignore: Any = ctypes.cast(ctypes.CDLL(None).abs, c_void_p).value
        self._questions = CoreQuestions(core, ignore)
        answers: dict[str, Any] = {
            "environment": self._questions,
            "video_refresh": self._video_refresh,
            "input_state": self._input_state,
        }
        # keep references: the core stores raw pointers
        self._callbacks = {name: CALLBACKS[name](answer) for name, answer in answers.items()}
        native = dict.fromkeys(IGNORED, ignore)
        if self._shortcuts is not None:
            native["input_state"] = self._shortcuts.input_state or ignore
        self._callbacks |= {name: CALLBACKS[name](address) for name, address in native.items()}
        for name, callback in self._callbacks.items():
            self._call(f"set_{name}", callback)
        defer_ctrl_c()
        self._start()
        self._open = True
        about = _SystemInfo()
        self._call("get_system_info", ctypes.byref(about))
        self._restarts = about.name in RESTARTED
        for start, block in self.memory.items() if about.name in UNCLEARED else ():
            if start >= UNCLEARED[about.name]:
                ctypes.memset(block, 0, len(block))
        if self._shortcuts is not None:
            self._shortcuts.prepare(0, ROWS)
        self._call("run")
        if not (self._shortcuts is None or self._shortcuts.asks):  # the frame's location does not change
            self._callbacks["video_refresh"] = CALLBACKS["video_refresh"](ignore)
            self._call("set_video_refresh", self._callbacks["video_refresh"])

    def _start(self) -> None:
        """Switch the console on, with the game."""
        self._call("init")
        data = self._rom.read_bytes()
        game = _GameInfo(os.fsencode(self._rom), data, len(data), None)
        if not data or not self._call("load_game", ctypes.byref(game)):
            self._call("deinit")
            self._spare.append(self._copy)
            raise UserError(f"{self._rom}: the emulator cannot start this ROM")
        size, place = self._call("get_memory_size", SYSTEM_RAM), self._call("get_memory_data", SYSTEM_RAM)
        self.ram = (ctypes.c_uint8 * (size if place else 0)).from_address(place or 1)
        """The console's working memory, a live view; invalid after `close`."""
        blocks = self._questions.memory_map or (Block(self._base, size, place),) * (place is not None)
        self.memory = {start: (ctypes.c_uint8 * size).from_address(place) for start, size, place in blocks}
        """Live views of all memory that can be written, by first address on the console's bus, in increasing order."""

    def run(self, rows: int = ROWS) -> None:
        """Emulate one video frame, of which only the first `rows` rows need to be right."""
        shortcuts = self._shortcuts
        if shortcuts is None:
            self._call("run")
            return
        shortcuts.prepare(self.pressed, rows)
        self._call("run") if shortcuts.asks else self._copy.library.retro_run()
        shortcuts.finish()

    def screen(self, rows: slice = ALL, gray: bool = False) -> Image:
        """The last video frame or some rows of it, uint8 [rows, width, 3], or [rows, width] if `gray`; a new array."""
        return converted(self._pixels[rows], gray)

    def save(self) -> bytes:
        """Serialize the console's state."""
        state = ctypes.create_string_buffer(self._call("serialize_size"))
        self._call("serialize", state, len(state))
        return state.raw

    def mark(self) -> None:
        """Keep the console's state for `rewind`; much faster than `save`."""
        if self._mark is None:
            self._mark = ctypes.create_string_buffer(self._call("serialize_size"))
        self._call("serialize", self._mark, len(self._mark))

    def rewind(self) -> None:
        """Restore the state of the last `mark`."""
        assert self._mark is not None
        self._call("unserialize", self._mark, len(self._mark))

    @property
    def hides(self) -> bool:
        """Whether the next frame takes less time if none of its rows need to be right."""
        return self._shortcuts is not None and self._shortcuts.hides

    def restore(self, state: bytes) -> bool:
        """Restore a saved state; the screen is updated with the next frame. Returns False if the core rejects it."""
        if not may_be_state(len(state), self._call("serialize_size")):
            return False
        if self._restarts:
            self._call("unload_game")
            self._call("deinit")
            self._start()
            self._call("reset")
        return bool(self._call("unserialize", state, len(state)))

    def close(self) -> None:
        """Unload the game. Closing twice is allowed."""
        if self._open:
            self._open = False
            self._call("unload_game")
            self._call("deinit")
            self._spare.append(self._copy)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the core; signals that arrive meanwhile are handled afterwards."""
        with held():
            return getattr(self._copy.library, f"retro_{name}")(*arguments)

    def _input_state(self, port: int, device: int, index: int, button: int) -> int:
        pressed = self.pressed >> PAD_BITS * port
        return pressed & 0xFFFF if button == ALL_BUTTONS else pressed >> button & 1

    def _video_refresh(self, address: int | None, width: int, height: int, pitch: int) -> None:
        frame = Frame(address or 0, width, height, pitch, self._questions.pixel_bytes)
        if address and frame != self.frame:  # null: the frame is unchanged
            self.frame, self._pixels = frame, frame.pixels((ctypes.c_uint8 * frame.size).from_address(address))


def may_be_state(size: int, usual: int) -> bool:
    """Whether a state of this size, in bytes, may be of a core whose states usually have another size.

    Other versions of a core save somewhat more or less; cores may crash if it is far less.
    """
    return usual // 2 <= size <= 2 * usual


def converted(pixels: Image, gray: bool) -> Image:
    """Convert pixels of a `Frame`, or some rows of it, as described in `Emulator.screen`."""
    if not pixels.size:  # OpenCV refuses these
        return np.zeros(pixels.shape[:2] if gray else (*pixels.shape[:2], 3), np.uint8)
    return cast(Image, cv2.cvtColor(pixels, CONVERSIONS[pixels.shape[2], gray]))


def _copy(core: Path, fast: bool) -> Copy:
    """Load a separate copy of the library, with libretro's signatures."""
    plan = _plan(core) if fast else None
    try:
        if hasattr(os, "memfd_create"):  # works with noexec folders; kept open, so that its name stays unique
            path = f"/proc/self/fd/{os.memfd_create(core.name)}"
            library = _load(core, path, plan)
        else:
            with tempfile.TemporaryDirectory() as folder:
                library = _load(core, f"{folder}/{core.name}", plan)
    except OSError as error:
        raise UserError(f"{core}: cannot load the emulator core ({error})") from error
    for name in CALLBACKS:
        getattr(library, f"retro_set_{name}").restype = None
    library.retro_load_game.argtypes, library.retro_load_game.restype = [POINTER(_GameInfo)], c_bool
    library.retro_get_memory_data.argtypes, library.retro_get_memory_data.restype = [c_uint], c_void_p
    library.retro_get_memory_size.argtypes, library.retro_get_memory_size.restype = [c_uint], c_size_t
    library.retro_get_system_info.argtypes, library.retro_get_system_info.restype = [POINTER(_SystemInfo)], None
    library.retro_serialize_size.restype = c_size_t
    library.retro_serialize.argtypes, library.retro_serialize.restype = [c_void_p, c_size_t], c_bool
    library.retro_unserialize.argtypes, library.retro_unserialize.restype = [c_char_p, c_size_t], c_bool
    for name in ("retro_init", "retro_deinit", "retro_run", "retro_reset", "retro_unload_game"):
        function = getattr(library, name)
        function.argtypes, function.restype = [], None
    return Copy(library, None if plan is None else plan.shortcuts(library))


@functools.cache
def _plan(core: Path) -> Plan | None:
    """The shortcuts of a core, None if it has none."""
    return next((plan for kind in (SNES9X, GENESIS) if (plan := core_patches.find(core, kind)) is not None), None)


def _load(core: Path, path: str, plan: Plan | None) -> ctypes.CDLL:
    """Copy the library to `path`, with the shortcuts of `plan`, and load it from there."""
    shutil.copyfile(core, path)
    if plan is not None:
        core_patches.shorten(path, plan)
    return ctypes.CDLL(path)
