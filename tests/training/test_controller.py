"""The controller's search, on made-up machines whose fastest setting is known, and in a real run."""

import random
import signal

import pytest
from commands import ENDLESS, REPORT_OFTEN, Training, wait_for

from kartrl.metrics.scalars_csv import values
from kartrl.training.controller import Controller, Knob


def search(rate, lag=lambda agents, batch: 1.0, start=(4, 2), noise=0.01, max_lag=10.0, seed=0):
    """Run a search to its end; the setting it ends with, and every one it tried."""
    now = {"agents": start[0], "batch": start[1]}
    tried, generator = [tuple(now.values())], random.Random(seed)

    def setter(name):
        def apply(value):
            now[name] = value
            tried.append(tuple(now.values()))

        return apply

    knobs = [Knob(name, tuple(range(1, 13)), value, setter(name)) for name, value in zip(now, start, strict=True)]
    said = []
    controller = Controller(knobs, max_lag, said.append)
    time, steps = 0.0, 1.0
    while not controller.frozen:
        time += 0.5
        steps += 0.5 * rate(**now) * generator.gauss(1.0, noise)
        controller.tick(time, int(steps), lag(**now))
        assert time < 20_000, "it must end"
    assert "finished" in said[-1]
    return tuple(now.values()), tried, controller


def hill(agents, batch):
    return 2000 - 40 * (agents - 8) ** 2 - 60 * (batch - 5) ** 2


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_top_of_a_noisy_hill(seed):
    (agents, batch), _, _ = search(hill, seed=seed)
    assert hill(agents, batch) > 0.93 * 2000


def test_noise_alone_moves_little():
    (agents, batch), tried, _ = search(lambda agents, batch: 1000, noise=0.02)
    assert abs(agents - 4) + abs(batch - 2) <= 1
    assert len(tried) < 16


def test_it_keeps_within_bounds_and_lag():
    (agents, batch), tried, _ = search(
        lambda agents, batch: 100 * agents * batch, lag=lambda agents, batch: agents / 2, max_lag=3.0, noise=0
    )
    assert (agents, batch) == (6, 12)
    assert all(1 <= value <= 12 for setting in tried for value in setting)


def test_too_much_lag_is_brought_down_even_if_it_costs_speed():
    (agents, _), _, _ = search(
        lambda agents, batch: 100 * agents, lag=lambda agents, batch: agents, start=(12, 2), max_lag=7.0, noise=0
    )
    assert agents == 7


def test_once_done_it_never_moves_again():
    _, tried, controller = search(hill, noise=0)
    number = len(tried)
    for second in range(1000):
        controller.tick(1e6 + second, 1_000_000 + second, 0.0)
    assert len(tried) == number


def test_it_waits_for_the_first_update_also_of_a_resumed_run():
    tried = []
    controller = Controller([Knob("agents", tuple(range(1, 9)), 4, tried.append)], 10.0, print)
    for second in range(100):
        controller.tick(float(second), 50_000, 0.0)
    assert tried == []
    for second in range(100, 300):
        controller.tick(float(second), 50_000 + second, 0.0)
    assert tried


# trials of a second in place of half a minute
HASTE = f"""{REPORT_OFTEN}
from kartrl.training import controller
controller.SETTLE_SECONDS, controller.WINDOW_SECONDS = 0.1, 0.3"""


def test_it_moves_numbers_of_a_real_run(tmp_path):
    options = [*ENDLESS, "--set", "system.agents=3", "--set", "system.controller=true"]
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *options, before=HASTE) as training:
        wait_for(lambda: len(set(values(folder, "speed/awaited_groups"))) > 1, 100, "it to try another number")
        status, output = training.end(signal.SIGINT)
    assert status == 128 + signal.SIGINT, output
