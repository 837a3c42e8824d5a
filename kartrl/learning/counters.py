"""How far a run has come."""

from typing import NamedTuple


class Counters(NamedTuple):
    """How far a run has come."""

    agent_steps: int = 0
    updates: int = 0
    episodes: int = 0
    seconds: float = 0.0
    progress: float = 0.0  # of the schedules, 0 to 1: see `schedules.Progress`
