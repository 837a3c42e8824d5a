"""Speeds of a run, over a sliding window."""

from collections import deque

from kartrl.display import Status
from kartrl.predictor_thread import PredictorThread
from kartrl.types import Counters


class Meter:
    """Speeds over a sliding window."""

    WINDOW = 10.0  # seconds

    def __init__(self, now: float, counters: Counters, predictors: list[PredictorThread]) -> None:
        self._points: deque[tuple[float, Counters, int, int]] = deque([(now, counters, *_predicted(predictors))])

    def status(self, now: float, counters: Counters, predictors: list[PredictorThread], lag: float, fraction: float, agents: int) -> Status:
        """The run's state at the monotonic time `now`."""
        self._points.append((now, counters, *_predicted(predictors)))
        while len(self._points) > 2 and now - self._points[1][0] > self.WINDOW:
            self._points.popleft()
        then, before, predictions, batches = self._points[0]
        seconds = max(now - then, 1e-6)
        newest = self._points[-1]
        speed = (counters.agent_steps - before.agent_steps) / seconds
        return Status(
            counters=counters,
            fraction=fraction,
            eta_seconds=counters.seconds * (1 - fraction) / fraction if fraction > 0 else float("inf"),
            agent_steps_per_second=speed,
            updates_per_second=(counters.updates - before.updates) / seconds,
            prediction_batch=(newest[2] - predictions) / max(newest[3] - batches, 1),
            lag=lag,
            agents=agents,
        )


def _predicted(predictors: list[PredictorThread]) -> tuple[int, int]:
    return sum(predictor.predictions for predictor in predictors), sum(predictor.batches for predictor in predictors)
