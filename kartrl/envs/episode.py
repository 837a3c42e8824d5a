"""A finished episode as a record, and the tally of a level's episodes."""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

STATISTICS = "kartrl"  # key of `info` with an episode's statistics; "episode" may be used by the user's own wrapper


class Episode(NamedTuple):
    """One finished episode; an agent or the evaluator sends it to the server."""

    agent_steps: int  # length of the episode in agent steps (actions chosen)
    episodic_return: float  # sum of untransformed rewards
    finished: bool  # terminated rather than truncated
    level: str = ""  # short name; "" if there are no levels
    use: str = "train"  # "train" or "test"
    details: Any = None  # what else the world reports about it, such as lap times; picklable
    success: bool | None = None  # what the last step's `info` says; None: nothing


class Result(NamedTuple):
    """All episodes of an evaluation on one level."""

    level: str  # short name; "" if there are no levels
    use: str  # "train", "test" or "none", in the configuration of the training run
    episodes: list[Episode]
    seeds: list[int]  # of these


class Drive(NamedTuple):
    """An episode driven to be drawn, with its trace."""

    episode: Episode
    trace: np.ndarray  # float32 [L, K], `World.trace` of the start and of each step


class Tally:
    """The newest episodes on one level (or of the whole environment, if it has no levels)."""

    def __init__(self, use: str, level: str) -> None:
        self.use, self.level = use, level
        self.episodes: deque[Episode] = deque(maxlen=50)
        self.evaluation: list[Episode] = []  # all episodes of the newest one here: see `newest_evaluation`
        self.evaluated_at: int | None = None  # agent steps of the checkpoint that it drove

    def add(self, episode: Episode, evaluated_at: int | None) -> None:
        """Add an episode.

        Args:
            evaluated_at: agent steps of the checkpoint that the evaluator drove; None for an agent's episode.
        """
        if evaluated_at is None:
            self.episodes.append(episode)
            return
        if evaluated_at != self.evaluated_at:
            self.evaluation, self.evaluated_at = [], evaluated_at
        self.evaluation.append(episode)


def newest_evaluation(tallies: Iterable[Tally]) -> list[Tally]:
    """Of several levels, those on which the newest checkpoint that any of them has seen was evaluated.

    Levels may take turns: their evaluations are of different checkpoints then, and must not be added up.
    """
    evaluated = [tally for tally in tallies if tally.evaluated_at is not None]
    newest = max((tally.evaluated_at or 0 for tally in evaluated), default=0)
    return [tally for tally in evaluated if tally.evaluated_at == newest]
