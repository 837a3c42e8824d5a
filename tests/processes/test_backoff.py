"""Helpers that die or stand still are replaced."""

import multiprocessing

import psutil
import pytest
from beating import live
from commands import wait_for

from kartrl.errors import RunFailed
from kartrl.processes.backoff import STRIKES, Helper
from kartrl.processes.pipes import readable
from kartrl.processes.spawn import spawn

CONTEXT = multiprocessing.get_context("spawn")
PATIENCE = 60.0


@pytest.fixture
def helper():
    said = []
    helper = Helper("logger", lambda signs: spawn(CONTEXT, "logger", live, signs), said.append, PATIENCE)
    helper.said = said
    yield helper
    helper.process.kill()
    helper.process.join(60)


def shows_life(helper):
    return readable(helper.signs.fileno(), 1.0)


def stop(helper):
    """Stop it, when it has shown signs of life that were not looked for yet."""
    wait_for(lambda: shows_life(helper), 60, "a sign of life")
    process = psutil.Process(helper.process.pid)
    process.suspend()
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, 60, "it to stop")
    return helper.process


def test_a_process_that_stands_still_is_replaced(helper):
    helper.watch(0.0)
    process = stop(helper)
    helper.watch(10.0)  # sees its last signs
    helper.watch(10.0 + PATIENCE)
    assert helper.said == []
    helper.watch(11.0 + PATIENCE)
    assert helper.said == ["the logger has been stalled for 61 s; killing it"]
    process.join(60)
    helper.watch(12.0 + PATIENCE)
    assert helper.said[1:] == ["the logger died (exit status -9): restarting it; training continues"]
    assert helper.process is not process
    assert helper.process.is_alive()


def test_one_that_shows_signs_of_life_is_left_alone(helper):
    helper.watch(0.0)
    process = helper.process
    for now in range(1, 10):
        wait_for(lambda: shows_life(helper), 60, "a sign of life")
        helper.watch(now * PATIENCE)
    assert helper.said == []
    assert helper.process is process


def test_one_that_cannot_be_started_is_given_up_in_the_end():
    """As where the machine allows no more processes or files; the run goes on."""
    said, errors = [], [RunFailed("too few processes may be allowed"), *[OSError(24, "Too many open files")] * 9]

    def start(_):
        raise errors.pop(0)

    helper = Helper("logger", start, said.append, PATIENCE)
    for now in range(60):
        helper.watch(float(now))
    assert len(said) == STRIKES
    assert (
        said[0] == "the logger cannot be started (too few processes may be allowed): trying again; training continues"
    )
    assert said[-1].endswith("Too many open files): giving up on it; training continues")
    assert helper.process is None
