"""A small test world, `Walk-v0`, with levels; `python walking.py train ...` is kartrl with it registered.

Its levels are paths of so many steps, and each step to the right is one further.
"""

import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import Field

from kartrl.cli import main
from kartrl.config.levels import NamedLevels
from kartrl.config.section import Section
from kartrl.config.worlds import WORLDS, WorldSections, WorldSettings
from kartrl.envs.world import World

LENGTHS = {"flat.short": 5, "flat.long": 9, "steep": 7}


class Limits(Section):
    """When a walk ends."""

    steps: int = Field(20, ge=1, description="steps after which an episode is truncated")


class Reward(Section):
    """The walker's reward."""

    arrival: float = Field(1.0, description="reward at the end of a path")


class WalkSections(WorldSections):
    """The walk's own sections."""

    walk: Limits = Limits()
    reward: Reward = Reward()


class Walk(gymnasium.Env):
    """Walk to the end of a path."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's own type

    def __init__(self, paths=("flat.short",), limit=20, arrival=1.0, render_mode=None):
        self.paths, self.limit, self.arrival, self.render_mode = paths, limit, arrival, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.path = (options or {}).get("path") or self.paths[self.np_random.integers(len(self.paths))]
        self.place = self.age = 0
        return self._look(), self._info()

    def step(self, action):
        time.sleep(0.002)  # leaves the cores to other tests
        self.age += 1
        self.place = max(0, self.place + (1 if action else -1))
        finished = self.place == LENGTHS[self.path]
        return self._look(), self.arrival * finished, finished, self.age == self.limit, self._info()

    def render(self):
        return np.full((32, 32, 3), 10 * self.place, np.uint8)

    def _look(self):
        return np.array([self.place / 10, LENGTHS[self.path] / 10], np.float32)

    def _info(self):
        return {"path": self.path, "place": self.place}


class WalkWorld(World):
    """Paths are the levels; how far the walker came is measured."""

    level_word = "path"
    columns = ("return", "furthest")
    summary_columns = ("arrived", "furthest")
    highlights = ("place",)
    picture_word = "profile"

    def make_env(self, levels, training, render):
        paths, mode, own = tuple(levels) or self.levels("train"), "rgb_array" if render else None, self.config.world
        return gymnasium.make(
            "Walk-v0", paths=paths, limit=own.walk.steps, arrival=own.reward.arrival, render_mode=mode
        )

    def reset_options(self, level):
        return {"path": level}

    def group_of(self, name):
        return name.partition(".")[0]

    def make_episode(self, info, finished, use="train"):
        return super().make_episode(info, finished, use)._replace(level=info["path"], details=info["place"])

    def measure(self, episodes):
        return super().measure(episodes) | {"place": float(np.mean([episode.details for episode in episodes]))}

    def fill_columns(self, tallies):
        episodes = [episode for tally in tallies for episode in tally.episodes]
        return ["-", str(max((episode.details for episode in episodes), default="-"))]

    def tell_progress(self, tallies):
        return f"walked {len(tallies)} paths"

    def summarize(self, episodes):
        arrived = sum(episode.finished for episode in episodes)
        return [f"{arrived} of {len(episodes)}", str(max(episode.details for episode in episodes))]

    def list_episodes(self, episodes):
        return [["furthest"], *([str(episode.details)] for episode in episodes)]

    def trace(self, info):
        return (info["place"],)

    def draw(self, level, drives, title, inches=8.0):
        picture = np.zeros((8, self.config.world.walk.steps + 1, 3), np.uint8)
        for drive in drives:
            picture[drive.trace[:, 0].astype(int) % 8, np.arange(len(drive.trace))] = 255
        return picture


if "Walk-v0" not in gymnasium.registry:  # processes load this file as their main module, and again as the world's
    gymnasium.register("Walk-v0", Walk)
WORLDS["Walk-v0"] = "walking"
USES = {"flat.short": "train", "flat.long": "train", "steep": "test"}
SETTINGS = WorldSettings("walking:WalkWorld", WalkSections, NamedLevels(USES))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
