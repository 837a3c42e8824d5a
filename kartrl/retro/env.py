"""A retro game as a Gymnasium environment."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.config import View
from kartrl.config.wording import nearest
from kartrl.console.isolated_emulator import EmulatorLost
from kartrl.console.libretro import PAD_BITS, Image
from kartrl.console.picture import Picture
from kartrl.errors import UserError
from kartrl.retro.buttons import decode, encode
from kartrl.retro.console import RetroConsole
from kartrl.retro.levels import start_of, state_name
from kartrl.retro.library import Game
from kartrl.retro.own.mistakes import check_integration
from kartrl.retro.settings import BUTTONS, COMBINATIONS, FILTERED, Retro, changes

FPS = 60  # frames of all consoles per second of play, rounded
LEVEL = "kartrl level"  # key of `info` with the start state's short name; others are names of variables
PARTS = "kartrl reward"  # key of the parts of a step's reward, if it is to be shown
OPTIONS = ("state", "noop")
NONE = "none"  # value of `Retro.scenario`
SETTLED = 2  # frames after a start within which no episode may end


class RetroEnv(gymnasium.Env[Image, Any]):
    """A game on an emulated console.

    Observations are uint8 [height, width, C * frame_stack]. An action holds buttons for `frame_skip` frames, or until
    the episode ends; its space is Discrete, MultiDiscrete for several players, or MultiBinary. `info` has the variables
    in the console's memory by name, and the start state at `LEVEL`.

    An episode begins with up to `noop_max` frames without buttons. `reset(options={"state": name, "noop": frames})`
    fixes what is otherwise drawn.

    If an emulator in a process of its own is lost, as one that runs a scenario's script may be, its episode is
    truncated.

    Args:
        game: the game.
        section: actions, reward and end.
        view: what is observed.
        states: start states, of which each reset draws one: names, paths, or `POWER_ON`.
        render_mode: "rgb_array" or None.

    Raises:
        UserError: the ROM or a file of the integration is missing or invalid, or the game lacks what `section` names.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  # Gymnasium's own type

    def __init__(
        self, game: Game, section: Retro, view: View, states: Sequence[str], render_mode: str | None = None
    ) -> None:
        self.game, self._section, self.states, self._skip = game, section, tuple(states), view.frame_skip
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": FPS / self._skip}
        self._picture, self._limit, self._wanted = Picture(view), section.time_limit * FPS, view.crop
        self.observation_space = spaces.Box(0, 255, self._picture.shape, np.uint8)
        self.on_frame: Callable[[Image], None] | None = None
        """Called with what `render` gives after each frame."""
        self.action_names: tuple[str, ...]
        """Of the alternatives, or of the bits."""
        self._isolated, self._begun = False, False
        self.console: RetroConsole | None = self._make_console()
        try:
            self._read_section(self.console)
        except UserError:
            self.close()
            raise

    def _make_console(self) -> RetroConsole:
        scenario = None if self._section.scenario == NONE else self._section.scenario
        if self.game.own:
            check_integration(self.game, scenario)
        return RetroConsole(self.game, scenario, self._section.players, self._isolated, fast=True)

    def _read_section(self, console: RetroConsole) -> None:
        section, values = self._section, console.info()
        self._crop = console.scenario.crop() if self._wanted == "auto" else self._wanted
        self._changes = changes(section.reward)
        named = [("reward", each.name) for each in self._changes]
        for key, name in [*named, *(("life_variables", name) for name in section.life_variables)]:
            if name not in values:
                near = f"; the nearest is {nearest(name, [*values])!r}" if values else ""
                raise UserError(f"[retro] {key}: {self.game.name} has no variable {name!r} in its memory{near}")
        buttons, self._combinations = self.game.system.buttons, console.combinations
        if section.actions in (BUTTONS, FILTERED):
            self._bits = [1 << bit for bit, name in enumerate(buttons) if name is not None]
            self.action_space: Any = spaces.MultiBinary(len(self._bits) * section.players)
            own = [name for name in buttons if name is not None]
            self.action_names = (*own, *(f"{name} {p}" for p in range(2, section.players + 1) for name in own))
            return
        if section.actions == COMBINATIONS:
            self._held = self._combinations.discrete()
            self.action_names = tuple(decode(held, buttons) for held in self._held)
        else:
            first, *others = section.actions
            if not others and "+" not in first:
                kinds = [word for (word,) in (COMBINATIONS, BUTTONS, FILTERED)]
                if (near := nearest(first, [*kinds, NONE, *filter(None, buttons)])) in kinds:
                    raise UserError(f"[retro] actions: unknown {first!r}; the nearest is {near!r}")
            words = [action.upper().split("+") for action in section.actions]
            self._held = [encode([] if word == ["NONE"] else word, buttons, "[retro] actions") for word in words]
            self.action_names = section.actions
        number = len(self._held)
        several = section.players > 1
        self.action_space = spaces.MultiDiscrete([number] * section.players) if several else spaces.Discrete(number)

    @property
    def pays(self) -> bool:
        """Whether it has a reward at all."""
        return bool(self._changes) or (self.console is not None and self.console.scenario.pays)

    def isolate(self) -> None:
        """Run the emulator in a separate process; call before the first reset.

        A start state that crashes or hangs it then raises `EmulatorLost`.
        """
        self.close()
        self._isolated = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        """Begin an episode; see the class for `options`."""
        super().reset(seed=seed)
        options = options or {}
        if unknown := set(options) - set(OPTIONS):
            raise UserError(
                f"{self.game.name}: unknown option {', '.join(map(repr, unknown))}; use {' or '.join(OPTIONS)}"
            )
        if self.console is None:
            self.console = self._make_console()
        console = self.console
        state = options.get("state")
        if state is None:
            state = self.states[int(self.np_random.integers(len(self.states)))]
        noop = options.get("noop")
        if noop is None:
            noop = int(self.np_random.integers(self._section.noop_max + 1))
        self._level = state_name(state)
        try:
            self._begin(console, state, noop)
        except EmulatorLost:  # in an episode before, perhaps: a new one begins at the same state
            if self._isolated:
                raise
            self.close()
            console = self.console = self._make_console()
            self._begin(console, state, noop)
        self._frames = self._last = 0
        self._parts: dict[str, float] = {}
        self._begun = True
        self._lives = self._count(console)
        self._best = [console.info()[each.name] for each in self._changes]
        self._picture.clear()
        return self._look(console), self._info(console)

    def _begin(self, console: RetroConsole, state: str, noop: int) -> None:
        """Begin at a start state and let frames pass; fewer if the episode would end meanwhile."""
        console.begin_episode(start_of(state))
        for passed in range(noop):
            if console.advance(0).done:
                self._begin(console, state, passed)
                return

    def step(self, action: Any) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of an action.

        Raises:
            InvalidAction: it is not one of `action_space`.
        """
        console = self.console
        if console is None or not self._begun:
            raise gymnasium.error.ResetNeeded(f"{self.game.name}: call reset before step")
        wanted, section = self._encode(action), self._section
        total, done = 0.0, False
        self._parts = {}
        for frame in range(self._skip):
            sticks = section.sticky == "every" or (section.sticky == "first" and frame == 0 and self._frames)
            if not sticks or self.np_random.random() >= section.sticky_probability:
                self._last = wanted
            before = console.info()
            try:
                outcome = console.advance(self._last, frame == self._skip - 1 or self.on_frame is not None)
            except EmulatorLost:
                if self._isolated:
                    raise
                return self._look(console), total, False, True, self._info(console)
            if self.on_frame is not None:
                self.on_frame(console.screen())
            self._frames += 1
            total += self._reward(console.info()) if self._changes else outcome.reward
            if self.render_mode is not None and not self._changes:
                self._add(console.scenario.terms(console.info(), before))
            if outcome.done or self._lost(console):
                done = True
                break
        return self._look(console), total, done, not done and self._frames >= self._limit, self._info(console)

    def _reward(self, values: dict[str, int]) -> float:
        """The reward of a frame by `retro.reward`."""
        parts = dict[str, float]()
        for index, (name, reward, penalty, highest) in enumerate(self._changes):
            change = values[name] - self._best[index]
            parts.setdefault(name, 0.0)
            if change > 0 or not highest:
                self._best[index] = values[name]
                parts[name] += change * (reward if change > 0 else penalty)
        self._add(parts)
        return sum(parts.values())

    def _add(self, parts: dict[str, float]) -> None:
        """Add the parts of a frame's reward to those of the step."""
        for name, part in parts.items():
            self._parts[name] = self._parts.get(name, 0.0) + part

    def _count(self, console: RetroConsole) -> list[int]:
        values = console.info()
        return [values[name] for name in self._section.life_variables]

    def _lost(self, console: RetroConsole) -> bool:
        """Whether a life has been lost in the last frame."""
        if not self._section.life_variables:
            return False
        before, self._lives = self._lives, self._count(console)
        return any(now < was for now, was in zip(self._lives, before, strict=True))

    def _encode(self, action: Any) -> int:
        """The buttons that an action holds on all joypads."""
        try:
            if self._section.actions in (BUTTONS, FILTERED):
                size = len(self._bits)
                if np.shape(action) != self.action_space.shape:
                    raise ValueError
                parts = [action[size * player : size * (player + 1)] for player in range(self._section.players)]
                held = [sum(bit for bit, on in zip(self._bits, part, strict=True) if on) for part in parts]
                if self._section.actions == FILTERED:
                    held = [*map(self._combinations.filtered, held)]
            else:
                numbers = [operator.index(action)] if self._section.players == 1 else [*map(operator.index, action)]
                if len(numbers) != self._section.players or min(numbers) < 0:
                    raise ValueError
                held = [self._held[number] for number in numbers]
        except (TypeError, ValueError, IndexError) as error:
            raise gymnasium.error.InvalidAction(
                f"{self.game.name}: invalid action {action!r}; choose one of {self.action_space}"
            ) from error
        return sum(mask << PAD_BITS * player for player, mask in enumerate(held))

    def _look(self, console: RetroConsole) -> Image:
        seen = console.cropped(self._crop, self._picture.gray)
        if not seen.size:
            raise self._misplaced(console, "outside")
        return self._picture.show(seen)

    def _misplaced(self, console: RetroConsole, how: str) -> UserError:
        height, width = console.screen().shape[:2]
        scenario = f"{self._section.scenario}.json" if self._wanted == "auto" else "[environment]"
        return UserError(
            f"{self.game.name}: {scenario}: crop: {' '.join(map(str, self._crop))} is {how} of the screen, which "
            f"is {width} pixels wide and {height} high; set environment.crop, 0 0 0 0 for all of it"
        )

    def _info(self, console: RetroConsole) -> dict[str, Any]:
        shown = {} if self.render_mode is None else {PARTS: self._parts}
        return {**console.info(), LEVEL: self._level, **shown}

    def render(self) -> Image | None:
        """The screen, uint8 [H, W, 3]."""
        return None if self.console is None else self.console.screen()

    def check(self, state: str) -> None:
        """Refuse a start state at which an episode would end at once, and a crop of one's own that does not fit there.

        Raises:
            UserError: names it, or see `reset`.
        """
        self.reset(options={"state": state, "noop": 0})
        assert self.console is not None
        height, width = self.console.screen().shape[:2]
        crop = self._crop
        if self.game.own and (crop.x + crop.width > width or crop.y + crop.height > height):
            raise self._misplaced(self.console, "partly outside")
        if any(self.console.advance(0).done for _ in range(SETTLED)):
            raise UserError(
                f"{self.game.name}: an episode at {self._level} ends at once: the condition `done` of "
                f"{self._section.scenario}.json already holds there; choose another start state or scenario"
            )

    def close(self) -> None:
        """Free the emulator."""
        self._begun = False
        if self.console is not None:
            self.console.close()
            self.console = None
