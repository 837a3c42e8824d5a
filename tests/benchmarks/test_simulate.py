"""benchmarks/simulate.py against cases that can be computed by hand."""

import json
import sys

import pytest
import simulate
from gymnasium.spaces import Discrete

from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.sizing.auto import choose_sizes

SPEC = EnvSpec("small", plain(4), ActionSpec.of(Discrete(2)), 1e-3)

# One agent with one environment, and all but its steps takes no time.
FREE = {
    "message": 0.0,
    "forward_base": 0.0,
    "forward_per_observation": 0.0,
    "wake": 0.0,
    "update_base": 0.0,
    "update_per_step": 0.0,
}
ONE = {
    "agents": 1,
    "groups_per_agent": 1,
    "group_size": 1,
    "prediction_groups": 1,
    "min_groups": 1,
    "training_blocks": 1,
    "ring": 2,
}
REST = {"unroll_length": 10, "predictors": 1, "trainers": 1, "cores": 4}


def make_setup(**changes):
    return simulate.Setup(**{"environment": 0.001, **FREE, **ONE, **REST, **changes})


def run(seconds=2.0, **changes):
    return simulate.Simulation(make_setup(**changes)).run(seconds)


def test_one_agent_steps_as_fast_as_its_environment():
    result = run()
    assert result.agent_steps_per_second == pytest.approx(1000, rel=0.02)
    assert result.limit() == "agents"
    assert result.use["agents"] == pytest.approx(1, rel=0.01)
    assert result.use["cores"] == pytest.approx(1 / 4, rel=0.01)
    assert result.prediction_batch == 1


def test_messages_and_forward_passes_of_waiting_agent_add_up():
    result = run(message=0.0005, forward_base=0.001, forward_per_observation=0.0004, wake=0.0001)
    assert result.agent_steps_per_second == pytest.approx(1 / 0.003, rel=0.02)
    assert result.use["predictor"] == pytest.approx(0.5, rel=0.02)
    assert result.limit() == "none: round trips"


def test_own_forward_pass_is_one_for_all_groups_of_an_agent():
    costs = {"message": 0.5, "forward_base": 0.002, "forward_per_observation": 0.0005, "wake": 0.5}
    result = run(predictors=0, groups_per_agent=2, group_size=2, **costs)
    assert result.agent_steps_per_second == pytest.approx(4 / (4 * 0.001 + 0.002 + 4 * 0.0005), rel=0.02)
    assert result.prediction_batch == 4
    assert result.limit() == "agents"
    two = run(predictors=0, agents=2, cores=1, groups_per_agent=2, group_size=2, **costs)
    assert two.agent_steps_per_second == pytest.approx(result.agent_steps_per_second, rel=0.05), "they share a core"


def test_a_second_group_hides_the_forward_pass():
    one, two = (run(groups_per_agent=groups, forward_base=0.001) for groups in (1, 2))
    assert one.agent_steps_per_second == pytest.approx(500, rel=0.02)
    assert two.agent_steps_per_second == pytest.approx(1000, rel=0.02)


def test_the_trainer_sets_the_pace():
    result = run(environment=1e-4, update_base=0.01, update_per_step=0.001, training_blocks=2, ring=3)
    assert result.agent_steps_per_second == pytest.approx(20 / 0.03, rel=0.02)
    assert result.limit() == "trainer"


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize(("groups", "size"), [(1, 1), (2, 4)])
def test_never_faster_than_the_ideal(gpu, cores, groups, size):
    times = {"environment": 3e-4, "forward_per_observation": 1.5e-4, "update_per_step": 4e-4}
    agents = 4 * cores
    sizes = {
        "groups_per_agent": groups,
        "group_size": size,
        "prediction_groups": 64,
        "min_groups": agents * groups // 2,
    }
    result = run(**times, **sizes, agents=agents, cores=cores, training_blocks=8 // size, ring=3, spread=0.2, gpu=gpu)
    network = times["forward_per_observation"] + times["update_per_step"]
    ideal = min(cores / times["environment"], 1 / network) if gpu else cores / (times["environment"] + network)
    # One trainer's thread is a limit too. The margins allow for updates that cross the ends of the window.
    bound = min(ideal, 1 / times["update_per_step"])
    assert 0.7 * bound < result.agent_steps_per_second < 1.03 * bound
    assert max(result.use.values()) < 1.03


@pytest.mark.parametrize(("groups", "ring", "blocks"), [(1, 1, 1), (1, 3, 3), (2, 2, 3)])
def test_without_a_trainer_agents_stop_when_their_rings_are_full(groups, ring, blocks):
    # The agent waits as soon as its first group has no free block: others then lack the last step of theirs.
    simulation = simulate.Simulation(make_setup(agents=3, groups_per_agent=groups, group_size=2, ring=ring, trainers=0))
    simulation.run(1.0, warm_up=False)
    assert simulation.count["steps"] == 3 * 2 * (blocks * 10 + (groups - 1) * 9)
    simulation.run(1.0, warm_up=False)
    assert simulation.count["steps"] == 0


def test_lag_counts_the_updates_since_the_actions():
    assert run(forward_base=0.001).lag < 1  # trained on at once: only the first steps are from before the last update
    # A block is filled while one is trained on and four wait: five updates come before its own.
    assert run(environment=1e-5, update_per_step=0.001, ring=5).lag == pytest.approx(5, abs=0.01)


def test_predictors_gather_what_waits():
    result = run(agents=8, cores=16, min_groups=8, prediction_groups=8, forward_base=0.002)
    assert result.prediction_batch == pytest.approx(8)
    assert run(agents=8, cores=16, min_groups=8, prediction_groups=3, forward_base=0.002).prediction_batch <= 3


def test_agents_make_way_for_the_trainer():
    result = run(agents=4, cores=1, update_per_step=0.0005)
    assert result.agent_steps_per_second == pytest.approx(1 / 0.0015, rel=0.03)
    assert result.use["trainer"] == pytest.approx(1 / 3, rel=0.03)  # it never waits for the core


def test_other_sizes_follow_from_changed_ones():
    setup = make_setup(
        agents=2, groups_per_agent=2, group_size=4, training_blocks=2, forward_base=2e-3, forward_per_observation=1e-3
    )
    assert setup.resized(cores=8) == setup._replace(cores=8)
    more = setup.resized(agents=8, groups_per_agent=1, group_size=1, cores=1)
    assert (more.prediction_groups, more.training_blocks, more.ring) == (8, 4, 2)  # half of all groups, as before
    assert more.min_groups == 5  # of 6 that it may wait for: 1.4 ms an observation instead of 1.33
    assert more.resized(agents=9, min_groups=1).min_groups == 1
    assert more._replace(gpu=True).resized(agents=9).min_groups == 5  # half: a forward pass takes no core


@pytest.mark.parametrize("algorithm", ["appo", "impala"])
@pytest.mark.parametrize(("agents", "envs"), [(1, 2), (4, 1), (4, 8), (64, 4)])
def test_sizes_are_those_that_training_chooses(algorithm, agents, envs):
    def sizes(agents: int, envs: int) -> dict[str, int]:
        overrides = [f"algorithm.name={algorithm}", f"system.agents={agents}", f"system.envs_per_agent={envs}"]
        chosen = choose_sizes(read(overrides=[*overrides, "environment.id=X", "system.device=cpu"]), SPEC, cpus=2)
        return {name: value for name, value in chosen._asdict().items() if name in simulate.Setup._fields}

    expected = sizes(agents, envs)
    given = {name: expected[name] for name in ("agents", "groups_per_agent", "group_size")}
    # How many requests to wait for depends on the measured duration of a forward pass.
    assert make_setup(**sizes(2, 8)).resized(**given)._replace(min_groups=1) == make_setup(**expected)._replace(
        min_groups=1
    )


def test_simulate_command_prints_a_row(tmp_path, capsys, monkeypatch):
    stages = tmp_path / "stages.json"
    measured = [
        {"agents": 1, "group_size": 1, "agent_steps_per_second": 1000.0, "lag": 1.0},
        {"agents": 2, "group_size": 1},
    ]
    stages.write_text(json.dumps({**make_setup()._asdict(), "measured": measured, "other": "ignored"}))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(
        sys, "argv", ["simulate.py", "--stages", str(stages), "--seconds", "0.5", "--envs-per-agent", "8", "--gpu"]
    )
    simulate.main()
    output = capsys.readouterr().out
    assert "1 x 2 x 4" in output
    assert "ASSUMED" in output
    assert "saturates first" in output
    assert "1,000" in output
