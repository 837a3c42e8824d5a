"""Speeds of a run over a sliding window, and where its roles' time goes."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kartrl.acting.predictor import PredictorThread
from kartrl.acting.slab import Slab
from kartrl.learning.counters import Counters
from kartrl.metrics.stopwatch import AGENT_STAGES, PREDICTOR_STAGES, TRAINER_STAGES, UPDATE_STAGES
from kartrl.metrics.terminal import Status
from kartrl.training.trainer import TrainerThread


class Meter:
    """Speeds over a sliding window, and over whole updates where one takes longer than the window.

    Until the first update, and while none is made for longer than the window, steps are counted as they are taken.

    Args:
        needed: steps of all environments for an update.
    """

    WINDOW = 10.0  # seconds

    def __init__(self, now: float, counters: Counters, needed: int = 0) -> None:
        self._needed = needed
        self._taken: deque[tuple[float, int]] = deque([(now, 0)])  # until the first update
        self._points: deque[tuple[float, Counters, int, int]] = deque([(now, counters, 0, 0)])  # at trained steps

    def status(
        self,
        now: float,
        counters: Counters,
        predicted: tuple[int, int],
        lag: float,
        fraction: float,
        agents: int,
        stuck: float,
    ) -> Status:
        """The run's state at the monotonic time `now`.

        Args:
            predicted: numbers so far of observations for which actions were chosen, and of forward passes.
        """
        points = self._points
        if counters.agent_steps != points[-1][1].agent_steps:
            points.append((now, counters, *predicted))
        while len(points) > 2 and now - points[1][0] > self.WINDOW:
            points.popleft()
        then, before, predictions, batches = points[0]
        newest = points[-1][0]
        seconds = max(newest - then, now - newest, 1e-6)  # the second is larger while training has stopped
        speed = (counters.agent_steps - before.agent_steps) / seconds
        waits = len(points) == 1 or now - newest > self.WINDOW
        if len(points) == 1:
            self._taken.append((now, predicted[0]))
            while len(self._taken) > 2 and now - self._taken[1][0] > self.WINDOW:
                self._taken.popleft()
            since, few = self._taken[0]
            speed = (predicted[0] - few) / max(now - since, 1e-6)
        return Status(
            counters=counters,
            fraction=fraction,
            eta_seconds=counters.seconds * (1 - fraction) / fraction if fraction > 0 else float("inf"),
            agent_steps_per_second=speed,
            updates_per_second=(counters.updates - before.updates) / seconds,
            prediction_batch=(predicted[0] - predictions) / max(predicted[1] - batches, 1),
            lag=lag,
            agents=agents,
            stuck=stuck,
            taken=predicted[0] - points[-1][2] if waits else 0,
            needed=self._needed,
        )


Stages = Sequence[tuple[str, tuple[str, ...], Sequence[np.ndarray]]]  # role, its stages, seconds in each per member


def slab_stages(slab: Slab, predictors: Sequence[PredictorThread], trainers: Sequence[TrainerThread]) -> Stages:
    """How agents, predictors and trainers have spent their time so far."""
    predicting = [predictor.stopwatch.seconds for predictor in predictors]
    return (
        ("agent", AGENT_STAGES, [*slab.stage_seconds]),
        *((("predictor", PREDICTOR_STAGES, predicting),) if predicting else ()),
        ("trainer", TRAINER_STAGES, [trainer.stopwatch.seconds for trainer in trainers]),
    )


class StageShares:
    """How the roles of a run spend their time, between one call and the next.

    Args:
        stages: returns how they have spent their time so far.
    """

    def __init__(self, stages: Callable[[], Stages]) -> None:
        self._stages = stages
        self._before = self._seconds()

    def _seconds(self) -> dict[str, float]:
        """Total seconds of all members of a role, by "<role>_<stage>"."""
        return {
            f"{role}_{stage}": float(total)
            for role, stages, seconds in self._stages()
            for stage, total in zip(stages, np.sum(seconds, 0), strict=True)
        }

    def shares(self) -> dict[str, float]:
        """Since the last call: "time/<role>_<stage>" -> fraction of the role's time, 0 to 1."""
        now, before = self._seconds(), self._before
        self._before = now
        seconds = {stage: now[stage] - before[stage] for stage in now}
        totals: dict[str, float] = {}
        for stage, value in seconds.items():
            role = stage.partition("_")[0]
            totals[role] = totals.get(role, 0.0) + value
        return {f"time/{stage}": value / max(totals[stage.partition("_")[0]], 1e-9) for stage, value in seconds.items()}


class LearnerIdle:
    """The fraction of time in which no trainer thread makes an update."""

    def __init__(self, threads: int) -> None:
        self._threads, self._newest = threads, 1.0

    def share(self, shares: Mapping[str, float]) -> float:
        """The fraction, from `StageShares.shares`; as before if no stage has ended since: an update takes that long."""
        updating = sum(shares[f"time/trainer_{stage}"] for stage in UPDATE_STAGES)
        if any(shares[f"time/trainer_{stage}"] for stage in TRAINER_STAGES):
            self._newest = max(0.0, 1 - self._threads * updating)
        return self._newest
