"""`kartrl/Procgen-v0`: the games of Procgen (Cobbe et al. 2020, arXiv:1912.01588), as built into EnvPool.

A policy is trained on some of its generated levels, and evaluated on these and on levels that it has never seen.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.envs.registered import make_registered
from kartrl.envs.world import Env
from kartrl.envs.worlds import GymnasiumWorld
from kartrl.procgen.settings import ALL, RangeSyntax, bounds

if TYPE_CHECKING:
    from kartrl.envs.episode import Episode

GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
DIFFICULTIES = ("easy", "hard")
SIDE = 64
COMBINATIONS = "left+down left left+up down none up right+down right right+up D A W S Q E"
SEEDS = 2**31  # exclusive limit of EnvPool's seeds
ENLARGED = 4  # pixels per pixel when rendered


class ProcgenEnv(gymnasium.Env[np.ndarray, Any]):
    """A game, with a level drawn at each reset; observations are uint8 [64, 64, 3].

    `reset(options={"levels": "all"})` draws from all levels that there are, as Procgen's authors do for evaluation (of
    2 billion, practically all unseen), or from any range instead of the environment's own. `info["levels"]` is the
    range, and `info["level_seed"]` the level's number.

    Args:
        game: one of `GAMES`.
        difficulty: easy or hard.
        levels: ranges of level numbers, or "all"; each reset draws one, and a level of it.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: there is no such game, difficulty or range.
        gymnasium.error.DependencyNotInstalled: EnvPool, or Qt 5, which Procgen draws with, is not installed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  # as Gymnasium has it

    def __init__(
        self,
        game: str = "coinrun",
        difficulty: str = "easy",
        levels: str | Sequence[str] = "0-199",
        render_mode: str | None = None,
    ) -> None:
        if game not in GAMES or difficulty not in DIFFICULTIES:
            raise ValueError(
                f"game must be one of {', '.join(GAMES)}, and difficulty easy or hard (got {game} and {difficulty})"
            )
        self._name, self.render_mode = f"{game.title()}{difficulty.title()}-v0", render_mode
        self._levels = tuple(map(_checked, [levels] if isinstance(levels, str) else levels))
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        self.action_space = spaces.Discrete(len(COMBINATIONS.split()))
        self._pools: dict[str, Any] = {}  # by range, each made by the first reset that draws it
        try:
            self._envpool: Any = importlib.import_module("envpool")
        except ImportError as error:
            advice = "pip install 'kartrl[procgen]'" if getattr(error, "name", None) == "envpool" else str(error)
            raise gymnasium.error.DependencyNotInstalled(f"Procgen needs EnvPool: {advice}") from error

    def _make(self, seed: int) -> Any:
        """A pool of one environment on the levels drawn."""
        first, last = bounds(self._drawn)
        count = 0 if self._drawn == ALL else last - first + 1
        settings = {"num_levels": count, "start_level": first}
        return self._envpool.make(self._name, env_type="gymnasium", num_envs=1, seed=seed, **settings)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a level; see the class for `options`."""
        super().reset(seed=seed)
        if seed is not None:
            self._pools = {}
        given = (options or {}).get("levels")
        self._drawn = _checked(given) if given else self._levels[self.np_random.integers(len(self._levels))]
        if self._drawn not in self._pools:
            self._pools[self._drawn] = self._make(int(self.np_random.integers(SEEDS)))
        observation, info = self._pools[self._drawn].reset()
        return self._look(observation), self._info(info)

    def get_action_meanings(self) -> list[str]:
        """Names of the actions, by the keys that they press."""
        return COMBINATIONS.split()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._pools[self._drawn].step(np.array([action], np.int32))
        return self._look(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._info(info)

    def _look(self, observation: np.ndarray) -> np.ndarray:
        """A pool's observation, uint8 [1, 3, 64, 64], as uint8 [64, 64, 3]; kept for `render`."""
        self._seen = np.ascontiguousarray(observation[0].transpose(1, 2, 0))
        return self._seen

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {"levels": self._drawn, "level_seed": int(info["level_seed"][0])}

    def render(self) -> Any:
        """The observation, four times as large; None without a render mode."""
        return None if self.render_mode is None else self._seen.repeat(ENLARGED, 0).repeat(ENLARGED, 1)


def _checked(levels: str) -> str:
    if wrong := RangeSyntax().mistake(levels):
        raise ValueError(f"levels: {wrong} (got {levels})")
    return levels


class ProcgenWorld(GymnasiumWorld):
    """Ranges of Procgen's levels are levels; see `RangeSyntax`."""

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        section = self.config.environment
        kwargs = {**section.kwargs, "levels": tuple(levels) or self.levels("train")}
        return make_registered(section.model_copy(update={"kwargs": kwargs}), render)

    def has_effect(self, key: str, images: bool) -> bool:
        """See `World`: [levels] says what the levels are."""
        return key != "kwargs.levels" and super().has_effect(key, images)

    def reset_options(self, level: str) -> dict[str, Any]:
        return {"levels": level}

    def make_episode(self, info: dict[str, Any], finished: bool, use: str = "train") -> Episode:
        return super().make_episode(info, finished, use)._replace(level=info["levels"])
