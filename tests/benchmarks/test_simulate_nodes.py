"""benchmarks/simulate_nodes.py against cases that can be computed by hand."""

import sys

import pytest
import simulate_nodes
from simulate_nodes import Cluster, Simulation

# Nodes of 1,000 agent steps/s in batches of 100, and all else takes no time.
FREE = Cluster(
    node_rate=1000.0,
    fill_steps=100,
    node_steps=100,
    call_steps=100,
    update_steps=100,
    update_base=0.0,
    update_per_step=0.0,
    intake_per_step=0.0,
    weight_bytes=0.0,
    latency=0.0,
    spread=0.0,
)


def run(seconds=20.0, **changes):
    return Simulation(FREE._replace(**changes)).run(seconds)


@pytest.mark.parametrize("nodes", [1, 7])
def test_nodes_that_wait_for_nothing_add_up(nodes):
    result = run(nodes=nodes)
    assert result.agent_steps_per_second == pytest.approx(1000 * nodes, rel=0.02)
    assert result.limit() == "nodes"
    assert (result.dropped, result.lost) == (0, 0)


def test_two_calls_hide_the_latency_that_one_waits_for():
    waits, hides = (run(calls=calls, latency=0.05).agent_steps_per_second for calls in (1, 2))
    assert hides == pytest.approx(1000, rel=0.02)
    # a call, the message with which new weights come, and an answer; meanwhile the next batch is filled
    assert waits == pytest.approx(100 / 0.15, rel=0.02)


@pytest.mark.parametrize("learners", [1, 2])
def test_updates_set_the_pace_and_learners_share_them(learners):
    result = run(nodes=40, learners=learners, update_base=0.005, update_per_step=0.0001)
    assert result.agent_steps_per_second == pytest.approx(learners * 100 / 0.015, rel=0.02)
    assert result.limit() == "learners"


def test_the_sum_of_gradients_goes_around_the_ring():
    result = run(nodes=40, learners=4, update_base=0.005, weight_bytes=4e4, bandwidth=1e7, latency=0.01, step_bytes=1)
    messages = 6 * (1e4 / 1e7 + 0.001)
    assert result.agent_steps_per_second == pytest.approx(4 * 100 / (0.005 + messages), rel=0.02)
    assert result.use["sum of gradients"] == pytest.approx(messages / (0.005 + messages), rel=0.03)


def test_network_bandwidth_limits_steps_and_compression_helps():
    narrow = {"nodes": 40, "step_bytes": 1000.0, "bandwidth": 1e7}
    result = run(**narrow)
    assert result.agent_steps_per_second == pytest.approx(1e4, rel=0.02)
    assert result.limit() == "network into a learner"
    assert run(**narrow, compression=2.5).agent_steps_per_second == pytest.approx(2.5e4, rel=0.02)
    slow = run(compression=2.5, compress_per_step=0.001)
    assert slow.agent_steps_per_second == pytest.approx(500, rel=0.02), "which costs the nodes time"


def test_weights_for_all_nodes_fill_the_network_too():
    result = run(nodes=40, weight_bytes=1e6, bandwidth=1e7)
    assert result.agent_steps_per_second == pytest.approx(100 / 0.1, rel=0.15), "each batch wants the newest"
    assert result.limit() == "network out of a learner"


def test_batches_that_are_too_old_are_dropped():
    fresh = run(nodes=8, update_base=0.02)
    assert fresh.lag == pytest.approx(23, abs=1), "three batches of each node wait, and one is the update's"
    assert fresh.dropped == 0
    bounded = run(nodes=8, update_base=0.02, max_lag=4)
    assert bounded.dropped > 0.3
    assert bounded.lag <= 4


def test_failures_cost_restart_time_and_unfinished_unrolls():
    result = run(seconds=2000.0, nodes=4, node_mtbf=20.0, node_restart=5.0)
    assert result.agent_steps_per_second == pytest.approx(4000 * 20 / 25, rel=0.05)
    assert result.lost == pytest.approx(0.1 / 20, rel=0.3)
    learner = run(learner_mtbf=1000.0, learner_restart=70.0, checkpoint=60.0)
    assert learner.agent_steps_per_second == pytest.approx(1000 / 1.1, rel=0.02)


def test_simulate_nodes_command_prints_a_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    command = ["simulate_nodes.py", "--nodes", "1", "64", "--set", "update_base=0.1", "--seconds", "4"]
    monkeypatch.setattr(sys, "argv", command)
    simulate_nodes.main()
    output = capsys.readouterr().out
    assert "ASSUMED: learners 1" in output
    assert "update_base" not in output, "it was given"
    assert "nothing: more nodes are of use" in output
    assert "larger updates, a faster GPU" in output
