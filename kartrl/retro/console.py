"""The emulated console with a game and its scenario, frame by frame as stable-retro's environment has it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from kartrl.console.console import Console
from kartrl.console.libretro import Image
from kartrl.errors import UserError
from kartrl.retro.buttons import Combinations
from kartrl.retro.library import Game
from kartrl.retro.scenario import NOTHING, Crop, Scenario, load_scenario


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
        isolated: see `Console`.

    Raises:
        UserError: the ROM is missing, the emulator rejects it, or a file of the integration is invalid.
    """

    def __init__(self, game: Game, scenario: str | None = "scenario", players: int = 1, isolated: bool = False) -> None:
        self.game, self.players = game, players
        system = game.system
        super().__init__(
            system.core_file, game.rom(), game.file("data.json"), system.base, system.word, isolated=isolated
        )
        try:
            self.scenario = self._scenario(scenario)
            self.combinations = Combinations(
                self.scenario.actions or system.actions, system.buttons, f"{game.folder}/{scenario}.json"
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
        self.run(0)
        self._before = self.values()

    def advance(self, buttons: int) -> Outcome:
        """Hold buttons for a frame.

        Args:
            buttons: a bit mask; of player p from bit `PAD_BITS` * p on.
        """
        self.run(buttons)
        values, before = self.values(), self._before
        self._before = values
        return Outcome(self.scenario.reward(values, before), self.scenario.is_done(values, before))

    def info(self) -> dict[str, int]:
        """The values in memory, in the last frame."""
        return self._before

    def cropped(self, crop: Crop, gray: bool = False) -> Image:
        """A part of the last frame, uint8 [H, W, 3], or [H, W] if `gray`."""
        return np.asarray(self.screen(crop.rows, gray)[:, crop.columns])
