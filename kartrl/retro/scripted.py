"""Scenarios whose reward or end is a Lua script: stable-retro itself runs them, with its own emulator.

It allows one emulator per process, and its scripts share one state, so that each has a process of its own.
"""

import ctypes
import json
from pathlib import Path

import cv2
import numpy as np

from kartrl.console.libretro import PAD_BITS, Emulator, Frame, may_be_state
from kartrl.errors import UserError
from kartrl.retro.systems import System


class ScriptedEmulator(Emulator):
    """stable-retro's emulator and scenario, with the methods that an `IsolatedEmulator` needs; once in a process.

    Args:
        data, scenario: the files of the integration.
        system: the console.
        players: number of joypads.
        core, rom, fast, base: see `Emulator`; the core is stable-retro's.

    Raises:
        UserError: stable-retro rejects the ROM, a file or the script.
    """

    def __init__(
        self, data: Path, scenario: Path, system: System, players: int, core: Path, rom: Path, fast: bool, base: int
    ) -> None:
        import stable_retro

        self.pressed, self._buttons, self._players, self._scenario = 0, len(system.buttons), players, scenario
        self._data = stable_retro.data.GameData()
        core_info = stable_retro.data.EMU_INFO[system.name]  # which tells the console by the file's ending
        named = json.dumps({system.name: {**core_info, "ext": [rom.suffix[1:]]}})
        stable_retro.RetroEmulator.load_core_info(named)
        try:
            self._emulator = stable_retro.RetroEmulator(str(rom))
        except RuntimeError as error:
            raise UserError(f"{rom}: the emulator cannot start this ROM ({error})") from error
        self._emulator.configure_data(self._data)
        if not self._data.load(str(data) if data.is_file() else None, str(scenario)):
            raise UserError(f"{scenario}: stable-retro cannot read it, or {data}")
        self.ram = (ctypes.c_uint8 * 0)()
        self.memory = {
            start: (ctypes.c_uint8 * len(block))() for start, block in sorted(self._data.memory.blocks.items())
        }
        """Copies of the memory, as in `Emulator`; changes have no effect."""
        self._look()

    def run(self, rows: int = 0) -> None:
        """Emulate one video frame, without the scenario."""
        for player in range(self._players):
            held = self.pressed >> PAD_BITS * player
            mask = np.array([held >> bit & 1 for bit in range(self._buttons)], np.uint8)
            self._emulator.set_button_mask(mask, player)
        self._emulator.step()
        self._look()

    def play(self, begin: bool) -> tuple[float, bool, dict[str, int]]:
        """Emulate one video frame and run the script.

        Returns its reward, whether the episode ends, and the values in memory with the variables that the script adds.

        Args:
            begin: whether an episode begins with it.

        Raises:
            UserError: the script fails.
        """
        self.run()
        try:
            if begin:
                self._data.reset()
            self._data.update_ram()
        except RuntimeError as error:
            told = " (has it read a variable of `data` that is not there?)" * ("C++ exception" in str(error))
            raise UserError(f"{self._scenario}: {error}{told}") from error
        self._copy_memory()  # the script may have changed it
        return self._data.current_reward(), self._data.is_done(), self._data.lookup_all()

    def save(self) -> bytes:
        """See `Emulator`."""
        return bytes(self._emulator.get_state())

    def restore(self, state: bytes) -> bool:
        """See `Emulator`."""
        restored = may_be_state(len(state), len(self.save())) and bool(self._emulator.set_state(state))
        self._copy_memory()
        return restored

    def _look(self) -> None:
        self._screen = cv2.cvtColor(self._emulator.get_screen(), cv2.COLOR_RGB2BGRA)
        height, width, depth = self._screen.shape
        self.frame = Frame(self._screen.ctypes.data, width, height, depth * width, depth)
        self._copy_memory()

    def _copy_memory(self) -> None:
        for start, block in self._data.memory.blocks.items():
            ctypes.memmove(self.memory[start], block, len(block))
