"""Speeds over a sliding window."""

import numpy as np
import pytest

from kartrl.learning.counters import Counters
from kartrl.metrics.terminal import Status
from kartrl.runtime.meter import Meter, StageShares


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
    assert {state.agent_steps_per_second for state in states[:30]} == {0.0}
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


def test_shares_stay_as_they_were_while_a_stage_lasts() -> None:
    seconds = np.zeros(2)
    shares = StageShares(lambda: [("trainer", ("idle", "backward"), [seconds])])
    assert shares.shares() == {"time/trainer_idle": 0.0, "time/trainer_backward": 0.0}
    seconds += (1.0, 3.0)
    assert shares.shares() == {"time/trainer_idle": 0.25, "time/trainer_backward": 0.75}
    assert shares.shares() == {"time/trainer_idle": 0.25, "time/trainer_backward": 0.75}, "it is in an update"
    seconds += (0.0, 8.0)
    assert shares.shares() == {"time/trainer_idle": 0.0, "time/trainer_backward": 1.0}
