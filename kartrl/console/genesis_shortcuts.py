"""Shortcuts of genesis_plus_gx: no sound, and the frames that no one sees are not drawn.

Memory and the frames that are drawn stay the same; sound in saved states does not. Of a hidden frame the background is
not drawn, and the colours of the lines are not looked up. Sprites are, as games can read whether they touch: for that
the line under them is cleared where the background would have been drawn.
"""

from collections.abc import Callable
from ctypes import c_uint16, c_uint64

from kartrl.console.core_patches import RETURN, Change, Kind, Link

PSG, ROW, CHANNELS = b"psg_update", b"remap_line", b"chan_calc.constprop.0"
BACKGROUND = b"render_bg"  # a variable with the address of the function that draws it
DRAWING = b"render_bg_m5", b"render_bg_m5_vs"  # those that can be hidden: of the Genesis' own modes
LINE, SCREEN, SCROLL_MASK, SCROLL_TABLE, VIDEO_MEMORY = b"linebuf", b"bitmap", b"hscroll_mask", b"hscb", b"vram"
PADS = b"AR_ROM"  # the path of a cartridge that is never plugged in: here are the joypads' buttons, 16 bits each
PLAYERS = 8
# where functions of ours are in that of the sound generator, which is not needed
BUTTONS_AT, HIDE_AT, SHOW_AT = 0x10, 0x30, 0x80
# eax = pads[edi] >> ecx & 1
BUTTONS = bytes.fromhex("89f8 488d1500000000 0fb70442 0fa3c8 0f92c0 0fb6c0 c3")
# clear line buffer 0 from 0x20 on, for the screen's width; if the background is scrolled by some of its 16 columns of
# pixels, from 16 columns less than that on, and 16 more
HIDE = bytes.fromhex(
    "488d0500000000 0fb600 21f8 488d1500000000 0fb712 8d0482 488d1500000000 0fb7440202 488d3d00000000 488d1500000000"
    "8b4a1c 83e00f 7408 488d7c07f0 83c110 31c0 f3aa c3"
)
# return if the background is hidden; else what `remap_line` began with, and continue there
SHOW = bytes.fromhex("488d0500000000 483b0500000000 740c 488d0d00000000 e900000000 c3")
CHANGES = (
    Change(PSG, 0, b"\x41\x57", RETURN),
    Change(CHANNELS, 0, b"\x89\xff\x41\x57", RETURN),  # the FM channels' sound; their timers, which games read, run on
    Change(PSG, BUTTONS_AT, b"", BUTTONS, (Link(5, PADS),)),
    Change(
        PSG,
        HIDE_AT,
        b"",
        HIDE,
        (Link(3, SCROLL_MASK), Link(15, SCROLL_TABLE), Link(28, VIDEO_MEMORY), Link(40, LINE, 0x20), Link(47, SCREEN)),
    ),
    Change(PSG, SHOW_AT, b"", SHOW, (Link(3, PSG, HIDE_AT), Link(10, BACKGROUND), Link(19, SCREEN), Link(24, ROW, 7))),
    Change(ROW, 0, b"\x48\x8d\x0d", b"\xe9\0\0\0\0", (Link(1, PSG, SHOW_AT),)),
)


class GenesisShortcuts:
    """See `core_patches.Shortcuts`."""

    asks = True

    def __init__(self, address: Callable[[bytes], int]) -> None:
        self._pads = (c_uint16 * PLAYERS).from_address(address(PADS))
        self._background = c_uint64.from_address(address(BACKGROUND))
        self._drawing = tuple(map(address, DRAWING))
        self._hidden, self._shown = address(PSG) + HIDE_AT, 0
        self.input_state = address(PSG) + BUTTONS_AT
        """See `Shortcuts`."""

    @property
    def hides(self) -> bool:
        """See `Shortcuts`; not of a Master System or Game Gear, nor of interlaced pictures."""
        return self._background.value in self._drawing

    def prepare(self, pressed: int, rows: int) -> None:
        self._pads[0] = pressed & 0xFFFF
        for player in range(1, PLAYERS):
            self._pads[player] = pressed >> 16 * player & 0xFFFF
        if not rows and self.hides:
            self._shown, self._background.value = self._background.value, self._hidden

    def finish(self) -> None:
        if self._background.value == self._hidden:  # else the game has changed the mode meanwhile
            self._background.value = self._shown


GENESIS = Kind(
    CHANGES, (BACKGROUND, *DRAWING, LINE, SCREEN, SCROLL_MASK, SCROLL_TABLE, VIDEO_MEMORY, PADS), GenesisShortcuts
)
