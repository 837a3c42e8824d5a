"""Retro games as a world: levels are start states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kartrl.config import Config, View
from kartrl.config.levels import Use
from kartrl.envs.episode import Episode
from kartrl.envs.world import Env, World
from kartrl.envs.wrappers.atari import USUAL
from kartrl.errors import UserError
from kartrl.retro.levels import (
    ALL,
    POWER_ON,
    group_of,
    is_path,
    resolved,
    single_keys,
    state_name,
    states_of,
    uses_by_name,
)
from kartrl.retro.library import Game, game_of
from kartrl.retro.settings import section_of

if TYPE_CHECKING:
    from rich.console import Console

NAMESPACE = "retro/"


class RetroWorld(World):
    """`retro/NAME`, a game that stable-retro knows, or `retro/FOLDER`, one's own; `World` documents the methods."""

    level_word: ClassVar = "state"
    action_keys: ClassVar = ("retro.actions", "retro.players")

    @property
    def game(self) -> Game:
        """The game that `environment.id` names.

        Raises:
            UserError: there is none.
        """
        return game_of(self.config.environment.id.removeprefix(NAMESPACE))

    # Environments

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        """See `World.open_env`."""
        from kartrl.envs.wrappers.observations import wrap_images
        from kartrl.retro.env import RetroEnv

        section = self.config.environment
        states = tuple(levels) or self._to_train()
        made = RetroEnv(
            self.game, section_of(self.config), section.view(self.usual_view), states, "rgb_array" if render else None
        )
        return wrap_images(made, section, self.usual_view)

    def action_names(self, env: Env) -> tuple[str, ...]:
        return env.unwrapped.action_names  # type: ignore[attr-defined]

    @property
    def joypad(self) -> tuple[str | None, ...]:
        return self.game.system.buttons

    def isolate(self, env: Env) -> None:
        """See `World`; the start states of stable-retro are trusted."""
        if any(map(is_path, env.unwrapped.states)):  # type: ignore[attr-defined]
            env.unwrapped.isolate()  # type: ignore[attr-defined]

    def check(self) -> None:
        self._to_train()
        env = self.open_env(self.all_levels())
        self.isolate(env)
        try:
            for level in self.all_levels():
                env.unwrapped.check(level)  # type: ignore[attr-defined]
        finally:
            env.close()

    @property
    def usual_view(self) -> View:
        """See `World`: Atari's."""
        return USUAL._replace(crop="auto")

    @property
    def usual_rewards(self) -> str:
        """See `World`: scores are of any size."""
        return "clip"

    def remark(self, env: Env) -> str:
        """See `World`: whether nothing is to be learned, unless a wrapper rewards."""
        if self.config.environment.wrapper != "none" or env.unwrapped.pays:  # type: ignore[attr-defined]
            return ""
        file = section_of(self.config).scenario
        where = "" if file == "none" else f"describe it in {self.game.folder / file}.json, or "
        return f"has no reward, so that nothing is learned: {where}set retro.reward, such as score:1"

    def has_effect(self, key: str, images: bool) -> bool:
        """See `World`: neither keyword arguments nor Atari's keys; only a wrapper's observations have parts."""
        parts = key == "observation_parts" and self.config.environment.wrapper == "none"
        return not (parts or key.startswith("kwargs.") or key in ("noop_max", "life_loss_ends"))

    # Levels

    def prepare(self, console: Console | None = None) -> Config:
        """See `World`: resolves the keys of [levels]."""
        return self.config.replaced(levels=self.config.levels.model_copy(update={"found": self.uses()}))

    def uses(self) -> dict[str, str]:
        """See `World`; older checkpoints have "" for `POWER_ON`."""
        return {level or POWER_ON: use for level, use in super().uses().items()}

    def named_uses(self) -> Mapping[str, str]:
        """See `World`; levels are names of start states, absolute paths, or `POWER_ON`."""
        return resolved(self.config.levels.uses, self.game.states(), self._default, self.game.name)

    @property
    def _default(self) -> str:
        return self.game.default_state(section_of(self.config).players) or POWER_ON

    def _to_train(self) -> tuple[str, ...]:
        states = self.levels("train")
        if not states:
            raise UserError(f"[levels]: no start state of {self.game.name} to train on; set at least one to train")
        return states

    def level_keys(self) -> list[str]:
        return [*single_keys(self.config.levels.uses, self.game.states(), self._default)]

    def find_uses(self, names: Sequence[str]) -> dict[str, str]:
        return {**uses_by_name(self.config.levels.uses, names, self.game.states(), self._default)}

    def _without(self, left: Sequence[str]) -> tuple[Config, list[str]]:
        config, dropped = super()._without(left)
        levels = config.levels
        if not dropped or any(use != "none" for use in levels.uses.values()):
            return config, dropped
        kept: dict[str, Use] = {**levels.uses, ALL: "none"}  # or the default state would be taken for one of them
        return config.replaced(levels=levels.model_copy(update={"uses": kept})), dropped

    def find_levels(self, keys: Sequence[str], console: Console | None = None) -> tuple[str, ...]:
        """See `World`; `keys` have the forms of keys of [levels]."""
        game = self.game
        return tuple(states_of(keys, game.states(), game.name))

    def reset_options(self, level: str) -> dict[str, Any]:
        return {"state": level}

    def name_level(self, level: str) -> str:
        return state_name(level)

    def group_of(self, name: str) -> str:
        """See `World`: states of the same beginning, such as a zone's acts."""
        return group_of(name)

    def reward_parts(self, info: dict[str, Any]) -> dict[str, float]:
        """See `World`: by the variables whose changes they are."""
        from kartrl.retro.env import PARTS

        return info.get(PARTS, {})

    def make_episode(self, info: dict[str, Any], finished: bool, use: str = "train") -> Episode:
        from kartrl.retro.env import LEVEL

        return super().make_episode(info, finished, use)._replace(level=info[LEVEL])
