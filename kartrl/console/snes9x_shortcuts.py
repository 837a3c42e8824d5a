"""Shortcuts of snes9x for games that do not need its audio processing unit once they have booted."""

import functools
from collections.abc import Callable
from ctypes import c_uint16, c_uint32

from kartrl.console.core_patches import RETURN, Change, Kind

CHANGES = (
    # The audio processing unit is not emulated. A game notices only if it waits for it, as each does when it boots.
    Change(b"_Z13S9xAPUExecutev", 0, b"\x53", RETURN),
    # WAI lets the time until the next event of a screen line pass at once, instead of 12 cycles of a frame's 357,000:
    # "mov edx, [rbx + 0x40]" for "lea edx, [rax + 12]".
    Change(b"_ZL4OpCBv", 0x14, bytes.fromhex("8b4304c64344018d500c"), bytes.fromhex("8b4304c64344018b5340")),
    # No questions for each of 24 buttons in every frame: `prepare` sets them.
    Change(b"_Z15S9xReportButtonjb", 0, b"\x41\x56", RETURN),
    # Unchanged: it shows where the size of what is cleared is, mov edx, [GFX + 0x24].
    Change(b"_Z21S9xStartScreenRefreshv", 0xAA, b"\x8b\x55\x24", b"\x8b\x55\x24"),
)
JOYPAD = b"_ZL6joypad"  # a variable that begins with the first joypad's buttons
DOWN_RIGHT = 1 << 5 | 1 << 7  # UP and LEFT are one bit lower
GRAPHICS, DEPTHS = b"GFX", 0x24  # a variable, and where in it the size of the depth buffer is, in bytes
DEPTHS_PER_ROW = 512


class Snes9xShortcuts:
    """See `core_patches.Shortcuts`; only the first joypad is used, and the screen's place and size never change."""

    asks, input_state, hides = False, None, False

    def __init__(self, address: Callable[[bytes], int]) -> None:
        self._joypad = c_uint16.from_address(address(JOYPAD))
        self._depths = c_uint32.from_address(address(GRAPHICS) + DEPTHS)

    def prepare(self, pressed: int, rows: int) -> None:
        """See `Shortcuts`; the core clears the depths of no other rows."""
        self._joypad.value = _held(pressed)
        self._depths.value = DEPTHS_PER_ROW * rows

    def finish(self) -> None:
        """See `Shortcuts`."""


@functools.cache
def _held(pressed: int) -> int:
    """Buttons as the console has them, the first one in the highest bit."""
    pressed &= ~((pressed & DOWN_RIGHT) >> 1)  # as the core does: of opposite directions the second counts
    return int(f"{pressed:016b}"[::-1], 2)


SNES9X = Kind(CHANGES, (JOYPAD, GRAPHICS), Snes9xShortcuts)
