"""When a run counts as stuck, and when it is given up."""

import pytest

from kartrl.errors import RunFailed
from kartrl.processes.watchdog import Watchdog

TIMEOUT = 30.0


def watch(seconds, update_every=0.0, fewest=1.0, predictions=True):
    """A watchdog that has seen so many seconds, at the end of which nothing but predictions was made for a time."""
    watchdog = Watchdog(0.0, TIMEOUT, fewest)
    for now in range(1, seconds + 1):
        watchdog.look(float(now), now, int(now // update_every) if update_every else 0)
    return watchdog


def seconds_to_the_end(watchdog, began, predictions):
    """How long it takes until the run is given up, and the words."""
    updates = watchdog.updates
    for now in range(began + 1, began + 10_000):
        try:
            watchdog.look(float(now), began + (now if predictions else 0), updates)
        except RunFailed as failure:
            return now - began, str(failure)
    raise AssertionError("it is never given up")


def test_predictions_for_a_dying_agent_are_no_progress():
    seconds, words = seconds_to_the_end(watch(100, update_every=1), 100, predictions=True)
    assert 2 * TIMEOUT < seconds < 2 * TIMEOUT + 5
    assert "no updates for" in words


def test_run_without_predictions_fails_before_first_update():
    seconds, words = seconds_to_the_end(watch(100), 100, predictions=False)
    assert 2 * TIMEOUT < seconds < 2 * TIMEOUT + 5
    assert "no steps or updates for" in words


def test_slow_environment_gets_the_time_of_its_updates():
    """Those of the fewest agents take the longest."""
    alone, _ = seconds_to_the_end(watch(1000, update_every=100), 1000, predictions=True)
    assert alone > 2 * 100
    quarter, _ = seconds_to_the_end(watch(1000, update_every=100, fewest=1 / 4), 1000, predictions=True)
    assert quarter > 2 * 400


def test_stuck_is_longer_than_ever_before():
    assert watch(50).stuck == 0, "the first update is still to come"
    watchdog = watch(60, update_every=20)
    assert watchdog.stuck == 0
    for now in range(61, 91):
        watchdog.look(float(now), now, 3)
    assert watchdog.stuck == 30
    watchdog.look(91.0, 91, 4)
    assert watchdog.stuck == 0


@pytest.mark.parametrize("pause", [3, 9])
def test_short_pauses_are_not_reported(pause):
    watchdog = watch(50, update_every=1)
    for now in range(51, 51 + pause):
        watchdog.look(float(now), now, 50)
    assert watchdog.stuck == 0
