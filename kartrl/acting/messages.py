"""Messages between the roles."""

from typing import NamedTuple

import numpy as np

from kartrl.envs.episode import Episode


class Requests(NamedTuple):
    """Observations waiting for an action; the leading dimension is the number of waiting groups."""

    group: np.ndarray  # int64 [n]
    block: np.ndarray  # int64 [n], the block of unrolls that the group is filling
    step: np.ndarray  # int64 [n], the step of those unrolls, 0 to T - 1
    number: np.ndarray  # int64 [n], distinguishes this request from earlier ones of the group
    observation: np.ndarray  # uint8 [n, G, H, W, C] or float32 [n, G, D]
    first: np.ndarray  # bool [n, G]
    restriction: np.ndarray | None = None  # float32 [n, G, P], if there are masks; see `kartrl.envs.masks`


class EpisodeEnd(NamedTuple):
    """A finished episode of an agent."""

    episode: Episode
    group: int  # in which it ran
    block: int  # of the group, counted from the agent's start, in which it ended


class ActingState(NamedTuple):
    """How the agents of a further learner are doing; its process sends this to the server."""

    alive: int  # agents
    deaths: int  # of agents, so far
    predictions: int  # observations for which actions were chosen, so far
    batches: int  # forward passes that chose them
    counts: dict[str, float]  # `Central.counts`


class Failure(NamedTuple):
    """Why an agent must end; it sends this to the server first."""

    reason: str
    trace: str  # the traceback
    user_error: bool  # bad input rather than a fault
