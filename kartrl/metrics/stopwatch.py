"""Time that a thread or process spends in each stage; cheap enough to be always on (docs/performance.md)."""

import time

import numpy as np

# Stages of the roles, in order. Wall-clock time: includes waiting for a busy core.
AGENT_STAGES = ("environment", "write", "wait_block", "wait_action", "act")  # the last without a predictor
PREDICTOR_STAGES = ("idle", "gather", "forward", "scatter")
UPDATE_STAGES = ("forward", "loss", "backward", "optimizer", "publish")
TRAINER_STAGES = ("idle", "gather", "replay", *UPDATE_STAGES)
WORKER_STAGES = (*AGENT_STAGES, "gather", *UPDATE_STAGES)  # Hogwild: all three in one process


class Stopwatch:
    """Adds the seconds since the last lap to the stage that ends.

    Args:
        seconds: float64 [len(stages)] to accumulate in, for example shared memory; a private array by default.

    Attributes:
        stages: names.
    """

    def __init__(self, stages: tuple[str, ...], seconds: np.ndarray | None = None) -> None:
        self.stages = stages
        self.seconds = np.zeros(len(stages)) if seconds is None else seconds
        self._index = {stage: index for index, stage in enumerate(stages)}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to `stage`."""
        now = time.perf_counter()
        self.seconds[self._index[stage]] += now - self._last
        self._last = now
