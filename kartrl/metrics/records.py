"""Messages to the logger."""

from typing import NamedTuple

import numpy as np

from kartrl.envs.episode import Episode


class Scalars(NamedTuple):
    """Scalars for the logger: tag -> value, at this many agent steps."""

    agent_steps: int
    values: dict[str, float]
    seconds: float = 0.0  # of training, at these agent steps: see `Trainer.seconds`


class Histograms(NamedTuple):
    """Distributions for the logger: tag -> float32 [any], at this many agent steps."""

    agent_steps: int
    values: dict[str, np.ndarray]


class EpisodeRecord(NamedTuple):
    """An episode for the logger; `evaluated` marks episodes of the evaluator."""

    agent_steps: int
    episode: Episode
    evaluated: bool
    seconds: float = 0.0  # of training, when it ended
    time: float = 0.0  # when it ended, in seconds since the Unix epoch


class EpisodeBatch(NamedTuple):
    """Episodes of agents; the logger writes their means at this many agent steps."""

    agent_steps: int
    records: tuple[EpisodeRecord, ...]
    seconds: float  # of training, at these agent steps


class Video(NamedTuple):
    """A film of an evaluated drive, for trackers."""

    agent_steps: int  # of the checkpoint
    tag: str  # as of its images in TensorBoard
    gif: bytes
    seconds: float = 0.0  # of training, at these agent steps


class Confirmation(NamedTuple):
    """Result of the evaluation that `run.stop_return` asks for."""

    agent_steps: int  # of the checkpoint
    mean: float  # return
    episodes: int


Record = Scalars | Histograms | EpisodeRecord | EpisodeBatch | Video
