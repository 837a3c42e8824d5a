"""What travels between the roles: NamedTuples, and the names of their dimensions.

T is the length of an unroll, B the number of unrolls in a batch, N the number of slots (one for each live
environment), G the number of slots that one agent steps together, A the number of actions, S the size of the recurrent
state.
"""

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

Array = TypeVar("Array")  # np.ndarray on the slab, torch.Tensor on the device


class World(NamedTuple):
    """What there is to know of an environment before it is trained on."""

    title: str
    shape: tuple[int, ...]  # of one observation
    dtype: str  # uint8 or float32
    num_actions: int
    step_seconds: float  # of one step in one process; 0 where no size depends on it


class Counters(NamedTuple):
    """How far a run has come."""

    agent_steps: int = 0
    updates: int = 0
    episodes: int = 0
    seconds: float = 0.0


class Episode(NamedTuple):
    """One finished episode; an agent or the evaluator sends it to the server."""

    agent_steps: int  # length of the episode, in actions chosen
    episodic_return: float  # sum of untransformed rewards
    finished: bool  # terminated (a finished race) rather than truncated
    circuit: str = ""  # "" where there are no circuits
    use: str = "train"  # "train" or "test"
    progress: float = 0.0  # laps driven, with fractions
    lap_times: tuple[float, ...] = ()  # seconds on the race clock

    @classmethod
    def of(cls, info: dict[str, Any], finished: bool, use: str = "train") -> "Episode":
        """From the `info` of an episode's last step, with Gymnasium's episode statistics in it."""
        return cls(
            agent_steps=int(info["episode"]["l"]),
            episodic_return=float(info["episode"]["r"]),
            finished=finished,
            circuit=info.get("circuit", ""),
            use=use,
            progress=float(info.get("progress", 0.0)),
            lap_times=tuple(info.get("lap_times", ())),
        )


class Scalars(NamedTuple):
    """Metrics for the logger: tag -> value, at this many agent steps."""

    agent_steps: int
    values: dict[str, float]


class Histograms(NamedTuple):
    """Distributions for the logger: tag -> float32 [any], at this many agent steps."""

    agent_steps: int
    values: dict[str, np.ndarray]


class EpisodeRecord(NamedTuple):
    """An episode for the logger; `evaluated` tells the evaluator's from the agents'."""

    agent_steps: int
    episode: Episode
    evaluated: bool


class Unrolls(NamedTuple, Generic[Array]):
    """B unrolls of T steps, time first, as the trainer gets them."""

    observation: Array  # uint8 [T + 1, B, H, W, C] or float32 [T + 1, B, D]
    reset: Array  # bool [T + 1, B], True where an episode begins
    action: Array  # int64 [T, B]
    behaviour_log_prob: Array  # float32 [T, B]
    reward: Array  # float32 [T, B]
    terminated: Array  # bool [T, B]
    valid: Array  # bool [T, B], False where a step only carries an episode's last observation
    version: Array  # int64 [T, B], of the weights that acted


class Requests(NamedTuple):
    """Observations that wait for an action; the leading dimension is the number of waiting groups."""

    group: np.ndarray  # int64 [n]
    block: np.ndarray  # int64 [n], the block of unrolls that the group is filling
    step: np.ndarray  # int64 [n], the step of those unrolls, 0 to T - 1
    number: np.ndarray  # int64 [n], tells this request from earlier ones of the group
    observation: np.ndarray  # uint8 [n, G, H, W, C] or float32 [n, G, D]
    reset: np.ndarray  # bool [n, G]


class Failure(NamedTuple):
    """Why an agent had to end; it sends this to the server before it does."""

    reason: str
    trace: str  # the traceback
    user_error: bool  # bad input rather than a fault
