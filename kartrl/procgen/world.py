"""`kartrl/Procgen-v0`: the games of Procgen (Cobbe et al. 2020, arXiv:1912.01588), as built into EnvPool.

A policy is trained on a fixed number of generated levels, and evaluated on these and on levels that it has never seen.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.envs.worlds import GymnasiumWorld
from kartrl.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from kartrl.envs.episode import Episode

GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
DIFFICULTIES = ("easy", "hard")
SIDE, ACTIONS = 64, 15
SEEDS = 2**31  # exclusive limit of EnvPool's seeds
ENLARGED = 4  # pixels per pixel when rendered
TRAIN, UNSEEN = "train", "unseen"
USES = {TRAIN: "train", UNSEEN: "test"}


class ProcgenEnv(gymnasium.Env[np.ndarray, Any]):
    """A game, with a level drawn at each reset; observations are uint8 [64, 64, 3].

    `reset(options={"levels": "unseen"})` draws from all levels that there are, as Procgen's authors do for evaluation
    (of 2 billion, practically all unseen); "train", the default, from those for training. `info["level"]` is one of
    these two words, and `info["level_seed"]` the level's number.

    Args:
        game: one of `GAMES`.
        difficulty: easy or hard.
        num_levels: number of levels for training; 0: all.
        start_level: the first of them.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: there is no such game or difficulty.
        gymnasium.error.DependencyNotInstalled: EnvPool, or Qt 5, which Procgen draws with, is not installed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  # as Gymnasium has it

    def __init__(
        self,
        game: str = "coinrun",
        difficulty: str = "easy",
        num_levels: int = 200,
        start_level: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if game not in GAMES or difficulty not in DIFFICULTIES:
            raise ValueError(
                f"game must be one of {', '.join(GAMES)}, and difficulty easy or hard (got {game} and {difficulty})"
            )
        self._name, self.render_mode = f"{game.title()}{difficulty.title()}-v0", render_mode
        self._range = {"num_levels": num_levels, "start_level": start_level}
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        self.action_space = spaces.Discrete(ACTIONS)
        self._level = TRAIN
        self._pool: Any = None  # made by the first reset
        try:
            self._envpool: Any = importlib.import_module("envpool")
        except ImportError as error:
            advice = "pip install 'kartrl[procgen]'" if getattr(error, "name", None) == "envpool" else str(error)
            raise gymnasium.error.DependencyNotInstalled(f"Procgen needs EnvPool: {advice}") from error

    def _make(self, seed: int) -> Any:
        """A pool of one environment on the chosen levels."""
        levels = self._range if self._level == TRAIN else {"num_levels": 0, "start_level": 0}
        return self._envpool.make(self._name, env_type="gymnasium", num_envs=1, seed=seed, **levels)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a level; see the class for `options`."""
        super().reset(seed=seed)
        level = (options or {}).get("levels", TRAIN)
        if level not in USES:
            raise ValueError(f"levels must be {TRAIN} or {UNSEEN} (got {level})")
        if seed is not None or self._pool is None or level != self._level:
            self._level = level
            self._pool = self._make(int(self.np_random.integers(SEEDS)))
        observation, info = self._pool.reset()
        return self._look(observation), self._info(info)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """See Gymnasium."""
        observation, reward, terminated, truncated, info = self._pool.step(np.array([action], np.int32))
        return self._look(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._info(info)

    def _look(self, observation: np.ndarray) -> np.ndarray:
        """A pool's observation, uint8 [1, 3, 64, 64], as uint8 [64, 64, 3]; kept for `render`."""
        self._seen = np.ascontiguousarray(observation[0].transpose(1, 2, 0))
        return self._seen

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {"level": self._level, "level_seed": int(info["level_seed"][0])}

    def render(self) -> Any:
        """The observation, four times as large; None without a render mode."""
        return None if self.render_mode is None else self._seen.repeat(ENLARGED, 0).repeat(ENLARGED, 1)


class ProcgenWorld(GymnasiumWorld):
    """Procgen's levels for training as one level of kartrl, all others as an unseen one."""

    def levels(self, use: str) -> tuple[str, ...]:
        """See `World`; with `num_levels = 0` none is unseen."""
        limited = self.config.environment.kwargs.get("num_levels", 1) != 0
        return tuple(level for level, of in USES.items() if of == use and (limited or level == TRAIN))

    def find_levels(self, keys: Sequence[str], console: Console | None = None) -> tuple[str, ...]:
        if unknown := [key for key in keys if key not in USES]:
            raise UserError(f"{unknown[0]}: levels are {' and '.join(USES)}")
        return tuple(keys)

    def find_uses(self, names: Sequence[str]) -> dict[str, str]:
        return {name: USES[name] for name in names}

    def reset_options(self, level: str) -> dict[str, Any]:
        return {"levels": level}

    def make_episode(self, info: dict[str, Any], finished: bool, use: str = "train") -> Episode:
        return super().make_episode(info, finished, use)._replace(level=info["level"])
