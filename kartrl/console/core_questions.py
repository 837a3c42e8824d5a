"""What a core asks of its frontend through libretro's environment callback, and stable-retro's answers to it."""

import ctypes
from collections.abc import Callable
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

# commands of libretro.h, RETRO_ENVIRONMENT_*
GET_CAN_DUPE, GET_SYSTEM_DIRECTORY, SET_PIXEL_FORMAT, GET_VARIABLE = 3, 9, 10, 15
GET_LOG_INTERFACE, SET_MEMORY_MAPS, GET_INPUT_BITMASKS = 27, 36 | 0x10000, 51 | 0x10000
PIXEL_BYTES = {1: 4, 2: 2}  # XRGB8888 and RGB565, RETRO_PIXEL_FORMAT_*: bytes per pixel
READ_ONLY = 1  # RETRO_MEMDESC_CONST
OPTIONS = {
    b"genesis_plus_gx_bram": b"per game",
    b"genesis_plus_gx_render": b"single field",
    b"genesis_plus_gx_blargg_ntsc_filter": b"disabled",
    b"parallel-n64-gfxplugin": b"angrylion",
}  # of cores, as stable-retro sets them; others stay at their defaults


class _Variable(ctypes.Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class _Descriptor(ctypes.Structure):
    _fields_ = [
        ("flags", c_uint64),
        ("pointer", c_void_p),
        ("offset", c_size_t),
        ("start", c_size_t),
        ("select", c_size_t),
        ("disconnect", c_size_t),
        ("length", c_size_t),
        ("space", c_char_p),
    ]


class _MemoryMap(ctypes.Structure):
    _fields_ = [("descriptors", ctypes.POINTER(_Descriptor)), ("number", c_uint)]


class Block(NamedTuple):
    """A part of the console's memory that can be written."""

    start: int  # first address on the console's bus
    size: int  # bytes
    place: int  # where it is in this process


class CoreQuestions:
    """Answers a core's questions; an instance is the environment callback.

    Args:
        core: its file; other files that it needs are in the same folder.
        ignore: address of a function that does nothing, for the core's log.
    """

    def __init__(self, core: Path, ignore: int) -> None:
        self.pixel_bytes = 2
        """Bytes per pixel of its frames: 2 for RGB565, 4 for XRGB8888."""
        self.memory_map: tuple[Block, ...] = ()
        """The memory that the core has described, by increasing addresses; empty if it has not."""
        self._ignore = ignore
        self._folder = c_char_p(bytes(core.parent))  # kept, as are the options: cores may store pointers
        self._answers: dict[int, Callable[[int], bool]] = {
            GET_CAN_DUPE: _allow,
            GET_SYSTEM_DIRECTORY: self._get_folder,
            SET_PIXEL_FORMAT: self._set_pixel_format,
            GET_VARIABLE: _get_option,
            GET_LOG_INTERFACE: self._get_log,
            SET_MEMORY_MAPS: self._set_memory_map,
            GET_INPUT_BITMASKS: lambda data: True,
        }

    def __call__(self, command: int, data: int | None) -> bool:
        """Answer a command; False: it is not supported."""
        answer = self._answers.get(command)
        return answer is not None and answer(data or 0)

    def _get_folder(self, data: int) -> bool:
        c_void_p.from_address(data).value = ctypes.cast(self._folder, c_void_p).value
        return True

    def _set_pixel_format(self, data: int) -> bool:
        found = PIXEL_BYTES.get(c_int.from_address(data).value)
        self.pixel_bytes = found or self.pixel_bytes
        return found is not None

    def _get_log(self, data: int) -> bool:
        c_void_p.from_address(data).value = self._ignore
        return True

    def _set_memory_map(self, data: int) -> bool:
        described = _MemoryMap.from_address(data)
        blocks = {}
        for each in described.descriptors[: described.number]:
            if each.flags & READ_ONLY or not each.pointer:
                continue
            size = each.length
            if each.select:  # addresses whose selected bits are those of the first
                selected = (~each.select & ~each.start) + 1 & each.select
                size = min(size or selected, selected)
            if size:
                blocks[each.start] = Block(each.start, size, each.pointer)
        self.memory_map = tuple(blocks[start] for start in sorted(blocks))
        return True


def _allow(data: int) -> bool:
    c_bool.from_address(data).value = True
    return True


def _get_option(data: int) -> bool:
    variable = _Variable.from_address(data)
    value = OPTIONS.get(variable.key)
    if value is not None:
        variable.value = value
    return value is not None
