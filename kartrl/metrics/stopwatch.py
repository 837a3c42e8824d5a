"""Where the time of a thread or process goes, stage by stage; cheap enough to stay on (docs/performance.md)."""

import time

import numpy as np

# What the roles do, in the order in which they do it; wall-clock time, so it also holds what a busy core makes them wait.
AGENT_STAGES = ("environment", "write", "wait_block", "wait_action")
PREDICTOR_STAGES = ("idle", "gather", "forward", "scatter")
TRAINER_STAGES = ("idle", "gather", "forward", "loss", "backward", "optimizer", "publish")


class Stopwatch:
    """Adds up the seconds between two laps to the stage that ends with the second.

    Args:
        stages: names.
        seconds: float64 [len(stages)] to count in, so that another process may read it; its own without.
    """

    def __init__(self, stages: tuple[str, ...], seconds: np.ndarray | None = None) -> None:
        self.seconds = np.zeros(len(stages)) if seconds is None else seconds
        self._index = {stage: index for index, stage in enumerate(stages)}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """The time since the last lap was spent on `stage`."""
        now = time.perf_counter()
        self.seconds[self._index[stage]] += now - self._last
        self._last = now
