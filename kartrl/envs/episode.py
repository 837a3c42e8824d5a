"""A finished episode, as it is told, and what is kept of the episodes of a level."""

from collections import deque
from typing import Any, NamedTuple

import numpy as np


class Episode(NamedTuple):
    """One finished episode; an agent or the evaluator sends it to the server."""

    agent_steps: int  # length of the episode, in actions chosen
    episodic_return: float  # sum of untransformed rewards
    finished: bool  # terminated rather than truncated
    level: str = ""  # short name; "" where there are no levels
    use: str = "train"  # "train" or "test"
    details: Any = None  # what else the world tells of it, such as lap times; picklable


class Drive(NamedTuple):
    """An episode that was driven to be looked at, and where it went."""

    episode: Episode
    trace: np.ndarray  # float32 [L, K], `World.trace` of the start and of each step


class Tally:
    """The newest episodes on one level (or all of them, where there are none)."""

    def __init__(self, use: str, level: str) -> None:
        self.use, self.level = use, level
        self.episodes: deque[Episode] = deque(maxlen=50)
        self.evaluation: Episode | None = None

    def add(self, episode: Episode, evaluated: bool) -> None:
        """Take in an episode of an agent or, `evaluated`, of the evaluator."""
        if evaluated:
            self.evaluation = episode
        else:
            self.episodes.append(episode)
