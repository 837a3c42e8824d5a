"""Schedules follow the nearer limit of a run, and a resumed run continues them."""

from itertools import pairwise

import pytest
import torch

from kartrl.config import Run
from kartrl.config.schedule import Schedule, constant, ramp
from kartrl.learning.counters import Counters
from kartrl.learning.schedules import Progress


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (constant(0.3), (0.3, 0.3, 0.3)),
        (ramp("linear", 1.0, 0.1), (1.0, 0.55, 0.1)),
        (ramp("linear", 0.99, 0.995), (0.99, 0.9925, 0.995)),
        (ramp("polynomial", 1.0, 0.1), (1.0, 0.1 + 0.9 / 4, 0.1)),
    ],
    ids=str,
)
def test_values_at_the_start_the_middle_and_the_end(schedule, expected):
    assert [schedule.at(progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx(expected)


def test_piecewise_values_are_straight_and_jump_between_points():
    schedule = Schedule("piecewise", ((0.2, 1.0), (0.6, 0.0), (0.6, 0.5), (0.8, 0.1)))
    expected = {0.0: 1.0, 0.2: 1.0, 0.3: 0.75, 0.5: 0.25, 0.599: 0.0025, 0.6: 0.5, 0.7: 0.3, 0.8: 0.1, 1.0: 0.1}
    assert {progress: schedule.at(progress) for progress in expected} == pytest.approx(expected)
    assert [schedule.at(0.6), schedule.at(1.0)] == [0.5, 0.1], "exactly: a cost of 0 is none"
    tensors = {progress: float(schedule.at(torch.tensor(progress))) for progress in expected}
    assert tensors == pytest.approx(expected, abs=1e-6), "as in a graph"


def saved(progress, agent_steps, seconds=0.0):
    """Counters as a checkpoint has them."""
    counters = Counters(agent_steps=agent_steps, seconds=seconds)
    return counters._replace(progress=progress.schedule(counters))


def test_a_run_is_as_far_as_its_agent_steps():
    progress = Progress(Run(agent_steps=1000), Counters())
    for steps, expected in ((0, 0.0), (250, 0.25), (1000, 1.0), (1100, 1.0)):
        counters = Counters(agent_steps=steps, seconds=1e6)
        assert progress.fraction(counters) == progress.schedule(counters) == expected


def test_progress_is_that_of_the_nearer_limit():
    """Schedules once ignored `run.minutes`: such a run ended at its first learning rate."""
    progress = Progress(Run(agent_steps=1000, minutes=2), Counters())
    for steps, seconds, expected in ((0, 60, 0.5), (700, 60, 0.7), (10, 120, 1.0), (10, 500, 1.0), (2000, 1, 1.0)):
        assert progress.schedule(Counters(agent_steps=steps, seconds=seconds)) == expected


def test_resume_with_more_steps_never_raises_learning_rate():
    first = Progress(Run(agent_steps=1000), Counters())
    before = saved(first, 600)
    progress = Progress(Run(agent_steps=3000), before)
    schedule = ramp("linear", 1.0, 0.1)
    rates = [schedule.at(progress.schedule(before._replace(agent_steps=n))) for n in range(600, 3001, 100)]
    assert rates[0] == schedule.at(first.schedule(before)), "it continues from where it stood"
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert rates[-1] == pytest.approx(0.1)


def test_finished_run_continues_at_the_end_of_its_schedules():
    before = saved(Progress(Run(agent_steps=1000), Counters()), 1000)
    progress = Progress(Run(agent_steps=2000), before)
    assert progress.fraction(before) == 0.5
    assert [progress.schedule(before._replace(agent_steps=n)) for n in (1000, 1500, 2000)] == [1.0, 1.0, 1.0]


def test_schedules_end_with_the_shorter_limits_of_a_resume():
    before = saved(Progress(Run(agent_steps=1000), Counters()), 300, seconds=30.0)
    for run, end in (
        (Run(agent_steps=400), before._replace(agent_steps=400)),
        (Run(agent_steps=1000, minutes=1), before._replace(seconds=60.0)),
    ):
        progress = Progress(run, before)
        assert progress.schedule(before) == pytest.approx(0.3)
        assert progress.schedule(end) == 1.0
    over = Progress(Run(agent_steps=200), before)
    assert over.fraction(before) == over.schedule(before) == 1.0


@pytest.mark.parametrize("run", [Run(agent_steps=997), Run(agent_steps=10**6, minutes=3)])
def test_resume_with_same_limits_has_identical_schedule(run):
    whole = Progress(run, Counters())
    before = Counters()
    for steps in range(0, 997, 83):
        progress = Progress(run, before)
        for further in range(0, 83, 7):
            counters = Counters(agent_steps=steps + further, seconds=0.17 * (steps + further))
            assert progress.schedule(counters) == whole.schedule(counters)
        before = saved(progress, steps + 83, seconds=0.17 * (steps + 83))


def test_two_resumes_with_the_same_new_limit_are_as_one():
    before = saved(Progress(Run(agent_steps=1000), Counters()), 600)
    once = Progress(Run(agent_steps=3000), before)
    twice = Progress(Run(agent_steps=3000), saved(once, 1700))
    for steps in (1700, 2000, 2999, 3000):
        counters = Counters(agent_steps=steps)
        assert twice.schedule(counters) == pytest.approx(once.schedule(counters))
