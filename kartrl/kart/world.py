"""The kart race as a world: levels are circuits, laps are measured, and driven lines are drawn on maps.

Modules that only some processes need are imported in the methods: agents and the logger stay small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kartrl.config import Config, View
from kartrl.envs.episode import Drive
from kartrl.envs.world import Env, World
from kartrl.envs.world_levels import digest
from kartrl.errors import UserError
from kartrl.kart.game import KMH, USUAL
from kartrl.kart.levels import (
    circuit_name,
    generated,
    group_of,
    is_generated,
    is_path,
    is_random,
    named,
    single_keys,
)
from kartrl.kart.race_world import RaceWorld, best_first

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

MOST_BUILT = 1000  # circuits that a checkpoint may cause to be generated without the user asking for them
MOST_NAMED = 200  # own circuits whose digests are kept one by one
SIDES = {"LEFT": "RIGHT", "RIGHT": "LEFT"}
NONE_TO_TRAIN = (
    "[levels]: no circuit to train on; set at least one, as in --set levels.MarioCircuit.Act1=train "
    "(those for a policy: -l)"
)


class KartWorld(RaceWorld):
    """`kartrl/Kart-v0`; `World` documents the methods."""

    level_word: ClassVar = "circuit"
    steady_reward: ClassVar = True
    picture_word: ClassVar = "driven line"
    training_keys: ClassVar = World.training_keys | {"kart.random_start", "kart.circuit_sampling"}
    seen_keys: ClassVar = frozenset({"kart.crop_top", "kart.crop_bottom"})
    action_keys: ClassVar = ("kart.actions",)

    # Environments

    @property
    def independent(self) -> bool:
        return self.config.environment.wrapper == "none"

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        from kartrl.kart.env import make_kart

        levels = tuple(levels) or self.levels("train")
        if not levels:
            raise UserError(NONE_TO_TRAIN)
        return make_kart(self.config, levels, training, render)

    def training_envs(self, size: int) -> list[Env]:
        """See `World`; they share the counts of steps on each circuit."""
        envs = super().training_envs(size)
        for env in envs:
            env.unwrapped.steps = envs[0].unwrapped.steps  # type: ignore[attr-defined]
        return envs

    def isolate(self, env: Env) -> None:
        env.unwrapped.isolate()  # type: ignore[attr-defined]

    def check(self) -> None:
        if not self.levels("train"):
            raise UserError(NONE_TO_TRAIN)
        env = self.open_env(self.all_levels())
        self.isolate(env)
        try:
            for circuit in self.all_levels():  # a start state may be damaged, or from another build of the ROM
                env.reset(options=self.reset_options(circuit))
        finally:
            env.close()

    @property
    def usual_view(self) -> View:
        return USUAL

    def has_effect(self, key: str, images: bool) -> bool:
        """See `World`: neither keyword arguments nor Atari's keys, and an observation has no parts."""
        return not key.startswith("kwargs.") and key not in ("crop", "noop_max", "life_loss_ends", "observation_parts")

    def mirrored_actions(self) -> tuple[int, ...]:
        """See `World`: left for right; () if an action has no counterpart, or a wrapper may have changed them."""
        sets = [frozenset(action.upper().split("+")) for action in self.kart.actions]
        swapped = [frozenset(SIDES.get(button, button) for button in buttons) for buttons in sets]
        if self.config.environment.wrapper != "none" or len(set(sets)) < len(sets) or {*sets} != {*swapped}:
            return ()
        return tuple(map(sets.index, swapped))

    def action_names(self, env: Env) -> tuple[str, ...]:
        return self.kart.actions

    @property
    def joypad(self) -> tuple[str | None, ...]:
        from kartrl.console.libretro import BUTTONS

        return BUTTONS

    # Levels

    def prepare(self, console: Console | None = None) -> Config:
        """See `World`: resolves the keys of [levels], and builds missing circuits."""
        from kartrl.kart.selection import with_circuits

        return with_circuits(self.config, console)

    def prepare_one(self) -> Config:
        from kartrl.kart.selection import with_one_circuit

        return with_one_circuit(self.config)

    def named_uses(self) -> Mapping[str, str]:
        """See `World`; levels are names of circuits, or absolute paths of start states."""
        uses = self.config.levels.uses
        if any(is_path(key) or (is_random(key) and use != "none") for key, use in uses.items()):
            raise RuntimeError("paths and random circuits in [levels] must be looked up first")
        return named(uses)

    def contents(self) -> dict[str, str]:
        """See `World`; of many circuits, one digest."""
        own = super().contents()
        return own if len(own) <= MOST_NAMED else {f"{len(own)} circuits": digest(repr(own).encode())}

    def own_files(self) -> dict[str, Path]:
        """See `World`: not those that are generated."""
        return {name: file for name, file in super().own_files().items() if not is_generated(name)}

    def level_keys(self) -> list[str]:
        return single_keys(self.config.levels)

    def count_levels(self, use: str) -> int:
        """See `World`; 0 before they have been looked up."""
        return len(self.levels(use)) if self.config.levels.found is not None else 0

    def openable(self, own: bool) -> tuple[Config, list[str]]:
        if not own and (number := generated(self.config.levels.uses)) > MOST_BUILT:
            raise UserError(f"[levels] has {number:,} generated circuits; choose some with -l")
        return super().openable(own)

    def impersonal(self) -> Config:
        from kartrl.kart.game_files import resolve_game

        kart = self.kart.model_copy(update={"game": resolve_game(self.kart.game)})
        return super().impersonal().replaced(kart=kart)

    def find_levels(self, keys: Sequence[str], console: Console | None = None) -> tuple[str, ...]:
        """See `World`; `keys` have the forms of keys of [levels]."""
        from kartrl.kart.selection import circuits_of

        return circuits_of(keys, self.kart.game, console)

    def find_uses(self, names: Sequence[str]) -> dict[str, str]:
        from kartrl.kart.selection import uses_by_name

        return {**uses_by_name(self.config.levels.uses, names)}

    def reset_options(self, level: str) -> dict[str, Any]:
        return {"circuit": level}

    def name_level(self, level: str) -> str:
        return circuit_name(level)

    def group_of(self, name: str) -> str:
        """See `World`: circuits of the same kind."""
        return group_of(name)

    # Pictures

    def trace(self, info: dict[str, Any]) -> tuple[float, ...]:
        """Position on the map (x grows east, y south) and speed, km/h."""
        return info["x"], info["y"], info["speed"] * KMH

    def lap(self, info: dict[str, Any]) -> int:
        return int(info["lap"])

    def map(self, level: str) -> np.ndarray | None:
        from kartrl.kart.circuits.states import circuit_map
        from kartrl.kart.game_files import game_folder

        return circuit_map(game_folder(self.kart.game), level)

    def draw(self, level: str, drives: Sequence[Drive], title: str, inches: float = 8.0) -> np.ndarray:
        """See `World`: the driven lines on the circuit's map, and the lap times of the best drive."""
        from kartrl.kart.circuits.driven_line import Line, driven_lines
        from kartrl.kart.circuits.states import circuit_block
        from kartrl.kart.game_files import game_folder

        best = min((drive.episode for drive in drives), key=best_first)
        lines = []
        for drive in drives:
            x, y, speed = drive.trace.T
            lines.append(Line(x, y, speed, drive.episode.finished))
        block = circuit_block(game_folder(self.kart.game), level)
        corner = "" if block is None else block.title.title()
        return driven_lines(self.map(level), lines, f"{title}\n{self.tell_episode(best)}", inches, corner)
