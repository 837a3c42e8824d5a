"""The emulated console with a game and its scenario, frame by frame as stable-retro's environment has it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kartrl.config import Crop
from kartrl.console.console import Console
from kartrl.console.isolated_emulator import IsolatedEmulator
from kartrl.console.libretro import ALL, ROWS, Emulator, Image
from kartrl.errors import UserError
from kartrl.retro.buttons import Combinations
from kartrl.retro.library import Game
from kartrl.retro.scenario import NOTHING, Scenario, load_scenario
from kartrl.retro.scripted import ScriptedEmulator

SHORTENED = ("genesis_plus_gx",)  # cores whose shortcuts change no game


class Outcome(NamedTuple):
    """What a frame gave the agent."""

    reward: float
    done: bool


class RetroConsole(Console):
    """A console with a game.

    Args:
        game: the game.
        scenario: a scenario's name, or None for `NOTHING`.
        players: number of joypads that are used; observations and rewards are the first one's.
        isolated: see `Console`; a scenario with a script always is.
        fast: whether to take the core's shortcuts, with which all but sound stays the same.

    Raises:
        UserError: the ROM is missing, the emulator rejects it, or a file of the integration is invalid.
    """

    def __init__(
        self,
        game: Game,
        scenario: str | None = "scenario",
        players: int = 1,
        isolated: bool = False,
        fast: bool = False,
    ) -> None:
        self.game, self.players = game, players
        self._hidden: list[int] = []  # buttons held in the newest frames, which are not drawn
        system = game.system
        data, shortened = game.file("data.json"), fast and system.core in SHORTENED
        super().__init__(system.core_file, game.rom(), data, system.base, system.word, isolated, shortened)
        try:
            if game.own and self.outside:
                places = ", ".join(f"{at:#x} to {at + len(of) - 1:#x}" for at, of in self.opened().memory.items())
                name = f"{game.folder / 'data.json'}: {self.outside[0]}"
                raise UserError(f"{name}: its address is not in the memory ({places})")
            self.scenario = self._scenario(scenario)
            self._run_script(scenario)
            self.combinations = Combinations(
                self.scenario.actions or system.actions, system.buttons, f"{game.folder}/{scenario}.json: actions"
            )
        except UserError:
            self.close()
            raise
        self.run(0)  # stable-retro's second frame before anything else
        self._on = self.save()  # switched on
        self._before = self.values()

    def _scenario(self, name: str | None) -> Scenario:
        file = None if name is None else self.game.file(f"{name}.json")
        if file is not None:
            return load_scenario(file, [*self.values()])
        if name not in (None, "scenario"):
            known = self.game.scenarios()
            raise UserError(f"{self.game.name} has no scenario {name!r}; it has {', '.join(known) or 'none'}")
        return NOTHING

    def _run_script(self, scenario: str | None) -> None:
        """Let stable-retro emulate, if the scenario has a script, as only it runs these."""
        game, system = self.game, self.game.system
        if not self.scenario.scripted:
            return
        self.close()
        make = partial(
            ScriptedEmulator, game.folder / "data.json", game.folder / f"{scenario}.json", system, self.players
        )
        self.emulator = IsolatedEmulator(system.core_file, game.rom(), make=make)

    def begin_episode(self, state: str | None) -> None:
        """Begin at a start state, with a frame in which no button is held; see `start_at`."""
        self.start_at(state)
        self.settle()

    def start_at(self, state: str | None) -> None:
        """Continue from a start state; `settle` follows.

        Args:
            state: its name, or None for the moment at which the console has been switched on.

        Raises:
            UserError: there is no such state, or the emulator rejects it.
        """
        if state is None:
            self.restore(self._on)
        else:
            self.load_state(Path(state) if state.endswith(".state") else self.game.state_file(state))

    def settle(self) -> None:
        """Let the frame pass that follows each restored state, in which no button is held."""
        if self.scenario.scripted:
            self._play(0, begin=True)
            return
        self.run(0)
        self._before = self.values()

    def advance(self, buttons: int, seen: bool = True) -> Outcome:
        """Hold buttons for a frame.

        Args:
            buttons: a bit mask; of player p from bit `PAD_BITS` * p on.
            seen: whether its screen will be asked for; if not, it may not be drawn until it is.

        Raises:
            UserError: the scenario's script fails.
        """
        if self.scenario.scripted:
            return self._play(buttons, begin=False)
        self.run(buttons, ROWS if seen else 0)
        values, before = self.values(), self._before
        self._before = values
        return Outcome(self.scenario.reward(values, before), self.scenario.is_done(values, before))

    def _play(self, buttons: int, begin: bool) -> Outcome:
        """Let stable-retro hold buttons for a frame, and run the scenario's script."""
        emulator = self.opened()
        assert isinstance(emulator, IsolatedEmulator)
        emulator.pressed = buttons
        with self.naming():
            reward, done, self._before = emulator.ask("play", begin)
        return Outcome(reward, done)

    def run(self, buttons: int, rows: int = ROWS) -> None:
        """See `Console`."""
        emulator = self.opened()
        if rows or not (isinstance(emulator, Emulator) and emulator.hides):
            self._hidden.clear()
            super().run(buttons)
            return
        if not self._hidden:
            emulator.mark()
        self._hidden.append(buttons)
        super().run(buttons, rows)

    def screen(self, rows: slice = ALL, gray: bool = False) -> Image:
        """See `Console`; emulates the newest frames again if they were not drawn."""
        if self._hidden and isinstance(self.emulator, Emulator):
            self.emulator.rewind()
            for buttons in self._hidden[:-1]:
                super().run(buttons, 0)
            self.run(self._hidden[-1])
        return super().screen(rows, gray)

    def restore(self, state: bytes) -> None:
        """See `Console`."""
        self._hidden.clear()
        super().restore(state)

    def info(self) -> dict[str, int]:
        """The values in memory, in the last frame."""
        return self._before

    def cropped(self, crop: Crop, gray: bool = False) -> Image:
        """A part of the last frame, uint8 [H, W, 3], or [H, W] if `gray`."""
        return np.asarray(self.screen(crop.rows, gray)[:, crop.columns])
