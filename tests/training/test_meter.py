"""Speeds over a sliding window."""

import numpy as np
import pytest

from kartrl.learning.counters import Counters
from kartrl.metrics.stopwatch import TRAINER_STAGES
from kartrl.metrics.terminal import Status
from kartrl.training.meter import LearnerIdle, Meter, StageShares


def measure(updates: dict[float, int], times: list[float]) -> list[Status]:
    """States at `times` of a run that has trained `updates[t]` agent steps in all at the time t, seconds."""
    meter, states = Meter(0.0, Counters()), []
    for now in times:
        trained = [steps for time, steps in updates.items() if time <= now]
        counters = Counters(agent_steps=max(trained, default=0), updates=len(trained), seconds=now)
        states.append(meter.status(now, counters, (8 * int(now), int(now)), 0.0, 0.5, 2, 0.0))
    return states


def test_updates_longer_than_the_window_have_a_steady_speed() -> None:
    updates = {30.0 * k: 16_384 * k for k in range(1, 10)}
    states = measure(updates, [float(second) for second in range(200)])
    assert [state.agent_steps_per_second for state in states[1:30]] == pytest.approx([8.0] * 29), "as they are taken"
    assert [state.taken for state in states[:30]] == [8 * second for second in range(30)]
    assert {state.taken for state in states[30:41]} == {0}
    assert [state.taken for state in states[41:60]] == [8 * (second - 30) for second in range(41, 60)]
    assert [state.agent_steps_per_second for state in states[30:]] == pytest.approx([16_384 / 30] * 170)
    assert [state.updates_per_second for state in states[30:]] == pytest.approx([1 / 30] * 170)


def test_speed_of_short_updates_is_that_of_the_window() -> None:
    updates = {k / 4: 100 * min(k, 80) + 300 * max(k - 80, 0) for k in range(1, 400)}  # three times as fast after 20 s
    states = measure(updates, [second / 2 for second in range(1, 80)])
    speeds = {state.counters.seconds: state.agent_steps_per_second for state in states}
    assert speeds[19.0] == pytest.approx(400)
    assert 500 < speeds[25.0] < 1_100
    assert speeds[35.0] == pytest.approx(1_200)
    assert states[-1].prediction_batch == pytest.approx(8)


def test_speed_falls_when_training_stops() -> None:
    updates = {float(k): 1_000 * k for k in range(1, 21)}
    states = measure(updates, [float(second) for second in range(81)])
    assert states[20].agent_steps_per_second == pytest.approx(1_000)
    assert states[40].agent_steps_per_second < 600
    assert states[80].agent_steps_per_second < 200


def test_a_learner_in_a_long_update_is_not_idle() -> None:
    """Time counts when a stage ends, and an update on several threads is one stage."""
    seconds = np.zeros(len(TRAINER_STAGES))
    shares = StageShares(lambda: [("trainer", TRAINER_STAGES, [seconds])])
    idle = LearnerIdle(1)
    assert idle.share(shares.shares()) == 1.0, "nothing yet"
    seconds[TRAINER_STAGES.index("idle")] += 1.0
    seconds[TRAINER_STAGES.index("backward")] += 3.0
    assert idle.share(shares.shares()) == 0.25
    assert idle.share(shares.shares()) == 0.25, "it is in an update"
    seconds[TRAINER_STAGES.index("backward")] += 8.0
    assert idle.share(shares.shares()) == 0.0
