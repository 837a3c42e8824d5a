"""Which runs are put together, and which are refused with the reason."""

import pytest
from commands import assert_clear
from finished_runs import write_run
from policies import make_checkpoint

from kartrl.comparison.report import make_comparison, markdown
from kartrl.comparison.runs import RETURN, group, read_run
from kartrl.errors import UserError
from kartrl.learning import checkpoint

PONG = {"env": "PongNoFrameskip-v4"}
KART = {"env": "kartrl/Kart-v0"}


def runs(tmp_path, *several):
    """Each (overrides, how): a run on disk, read again."""
    folders = [write_run(tmp_path / f"run{number}", *over, **how) for number, (over, how) in enumerate(several)]
    return [read_run(str(folder), RETURN) for folder in folders]


def refused(question):
    with pytest.raises(UserError) as error:
        question()
    assert_clear(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (
            ((), PONG),
            ((), {"env": "ALE/Pong-v5"}),
            "run0 is on PongNoFrameskip-v4, run1 on another version, ALE/Pong-v5",
        ),
        (((), PONG), ((), {"env": "Pong-v4"}), "another version, Pong-v4"),
        (((), PONG), (("environment.frame_skip=5",), PONG), "run0 has environment.frame_skip = 4, run1 has 5"),
        (
            ((), {}),
            (("environment.kwargs.sutton_barto_reward=true",), {}),
            "environment.kwargs = {}, run1 has {'sutton",
        ),
        (
            ((), {"env": "kartrl/Kart-v0"}),
            (("levels.MarioCircuit.Act4=none",), {"env": "kartrl/Kart-v0"}),
            "levels (test) = MarioCircuit.Act4, run1 has none",
        ),
        (((), KART), (("reward.progress=3",), KART), "reward.progress = 10.0, run1 has 3.0"),
    ],
)
def test_incomparable_runs_are_refused_with_the_reason(tmp_path, one, other, reason):
    assert reason in refused(lambda: group(runs(tmp_path, one, other), "algorithm.name"))


def test_arguments_of_the_environment_may_be_in_any_order(tmp_path):
    arguments = ("environment.kwargs.a=1", "environment.kwargs.b=2")
    both = runs(tmp_path, (arguments, {}), (arguments[::-1], {}))
    assert len(group(both, "algorithm.name")["appo"]["CartPole-v1"]) == 2


def test_compared_runs_may_differ_in_group_and_observation_keys(tmp_path):
    skips = ("environment.frame_skip=4", "environment.frame_stack=2"), ("environment.frame_skip=5",)
    both = runs(tmp_path, *((skip, PONG) for skip in skips))
    assert list(group(both, "environment.frame_skip")) == ["4", "5"]


@pytest.mark.parametrize(
    ("key", "how"),
    [
        ("environment.mirrored_actions=none", KART),
        ("kart.crop_top=40", KART),
        ("environment.grayscale=false", PONG),
        ("environment.life_loss_ends=false", PONG),
    ],
)
def test_keys_of_learner_or_without_effect_may_differ(tmp_path, key, how):
    assert len(group(runs(tmp_path, ((), how), ((key,), how)), "algorithm.name")) == 1


def test_runs_may_be_compared_by_what_a_circuit_is_used_for(tmp_path):
    unused = ("levels.MarioCircuit.Act4=none",)
    both = runs(tmp_path, ((), {"env": "kartrl/Kart-v0"}), (unused, {"env": "kartrl/Kart-v0"}))
    assert list(group(both, "levels.MarioCircuit.Act4")) == ["test", "none"]
    assert "nearest that it has is levels.MarioCircuit." in refused(lambda: group(both[:1], "levels.MarioCircuit.Act"))


@pytest.mark.parametrize(
    ("change", "by", "reason"),
    [
        ("run.agent_steps=5000", "algorithm.name", None),
        ("appo.epochs=7", "algorithm.name", None),
        ("appo.epochs=7", "appo.epochs", "run was begun with appo.epochs = 1 and resumed with 7"),
        ("reward.progress=4", "run.seed", "run was begun with reward.progress = 3.0 and resumed with 4.0"),
    ],
)
def test_a_run_that_was_resumed_with_another_task_is_refused(tmp_path, change, by, reason):
    begun = ("reward.progress=3", "model.hidden_size=16")
    folder = write_run(tmp_path / "run", *begun, env="kartrl/Kart-v0")
    (folder / "checkpoints").mkdir()
    checkpoint.save(folder / "checkpoints" / "0000000100.pt", make_checkpoint(100, *begun, change))
    run = read_run(str(folder), RETURN)
    if reason is None:
        assert len(group([run], by)) == 1
    else:
        assert reason in refused(lambda: group([run], by))


def test_groups_are_made_by_a_key_or_by_labels(tmp_path):
    several = runs(
        tmp_path,
        (("algorithm.name=ppo", "run.seed=1"), {}),
        (("algorithm.name=a2c",), {}),
        (("algorithm.name=ppo", "run.seed=2"), {}),
    )
    groups = group(several, "algorithm.name")
    assert {label: [run.name for run in members["CartPole-v1"]] for label, members in groups.items()} == {
        "ppo": ["run0", "run2"],
        "a2c": ["run1"],
    }
    assert list(group(several, "whatever", ["x", "y", "x"])) == ["x", "y"]
    assert "nearest that it has is algorithm.name" in refused(lambda: group(several, "algorithm.nam"))
    assert "run1 has no such key" in refused(lambda: group(several, "ppo.epochs"))


def test_a_group_without_a_run_on_a_task_is_refused(tmp_path):
    several = runs(
        tmp_path, (("algorithm.name=ppo",), {}), (("algorithm.name=ppo",), PONG), (("algorithm.name=a2c",), {})
    )
    assert "algorithm.name = a2c has no run on PongNoFrameskip-v4, as run1 is" in refused(
        lambda: group(several, "algorithm.name")
    )


def test_tasks_that_a_group_lacks_may_be_left_out(tmp_path):
    several = runs(
        tmp_path, (("algorithm.name=ppo",), {}), (("algorithm.name=ppo",), PONG), (("algorithm.name=a2c",), {})
    )
    reasons = []
    groups = group(several, "algorithm.name", leave_out=reasons.append)
    assert {label: list(members) for label, members in groups.items()} == {
        "ppo": ["CartPole-v1"],
        "a2c": ["CartPole-v1"],
    }
    assert reasons == ["algorithm.name = a2c has no run on PongNoFrameskip-v4, as run1 is"]
    assert group(several[1:], "algorithm.name", leave_out=reasons.append) == {}, "no task is left"


def test_a_run_without_the_metric_is_refused_with_the_nearest(tmp_path):
    folder = write_run(tmp_path / "run", scalars={"losses/entropy": [1.0, float("nan")], "speed/updates": []})
    assert read_run(str(folder), "losses/entropy").points.value.tolist() == [1.0]
    assert "the nearest that it has is losses/entropy" in refused(lambda: read_run(str(folder), "loses/entropy"))
    empty = write_run(tmp_path / "empty", returns=[])
    assert "has no episodic_return yet, as no episode of its training has ended" in refused(
        lambda: read_run(str(empty), RETURN)
    )
    assert "no such run" in refused(lambda: read_run(str(tmp_path), RETURN))


def test_all_levels_are_finished_when_the_last_first_was(tmp_path):
    tags = {
        "evaluation_train/a/finished": [0.0, 1.0, 0.0],
        "evaluation_train/b/finished": [0.0, 0.5, 1.0],
        "evaluation_test/c/finished": [0.0, 0.0, 0.0],
    }
    levels = [("a", 0), ("b", 0)]
    kart = {"env": "kartrl/Kart-v0", "scalars": tags, "levels": levels, "returns": [0.0] * 2}
    (run,) = runs(tmp_path, ((), kart))
    assert run.finished == {"train": (3.0, 3000.0), "test": None, "training": None}


def test_group_means_do_not_show_when_each_level_was_finished(tmp_path):
    tags = {"evaluation_train/random.ice/finished": [1.0], "evaluation_test/MarioCircuit/finished": [1.0]}
    levels = [("random.ice.0006", 1)]
    keys = ("levels.*=test", "levels.random:4=train")  # 24 circuits
    (grouped,) = runs(tmp_path, (keys, {"env": "kartrl/Kart-v0", "scalars": tags, "levels": levels}))
    assert grouped.finished == {}


def test_levels_in_training_are_finished_when_the_last_was(tmp_path):
    episodes = [("a", 0), ("a", 1), ("b", 0), ("a", 0), ("b", 1), ("b", 1)]
    done, not_done = (
        {"env": "kartrl/Kart-v0", "levels": levels, "returns": [0.0] * len(levels)}
        for levels in (episodes, episodes[:4])
    )
    first, second = runs(tmp_path, ((), done), ((), not_done))
    assert first.finished == {"training": (0.5, 500.0)}
    assert second.finished == {"training": None}


def test_sizes_that_differ_within_or_between_groups_are_listed(tmp_path):
    several = runs(
        tmp_path,
        (("system.agents=auto (2)", "algorithm.unroll_length=auto (32)", "system.training_batch_size=auto (16)"), {}),
        (("system.agents=auto (16)", "algorithm.unroll_length=auto (8)", "system.training_batch_size=16"), {}),
        (("algorithm.name=ppo", "algorithm.unroll_length=8", "system.training_batch_size=auto (16)"), {}),
        (("system.agents=16", "algorithm.unroll_length=8", "appo.minibatch_size=64"), {}),
    )
    table = markdown(make_comparison(group(several, "algorithm.name"), RETURN, "algorithm.name"))
    assert table.partition("Sizes that differ:\n\n")[2].startswith(
        "- system.agents: 2 in run0; 16 in run1, run3\n"
        "- algorithm.unroll_length: 32 in run0; 8 in run1, run3, ppo\n"
        "- appo.minibatch_size: 128 in run0, run1; 64 in run3\n\n"
    )
    by_length = group(several, "algorithm.unroll_length")
    assert "- algorithm.unroll_length" not in markdown(make_comparison(by_length, RETURN, "algorithm.unroll_length"))
    same = [run._replace(resumed=run.config) for run in (several[1], several[1])]
    assert "Sizes" not in markdown(make_comparison(group(same, "run.seed"), RETURN, "run.seed"))
    resumed = several[0]._replace(resumed=several[1].config)
    table = markdown(make_comparison(group([several[0], resumed], "run.seed"), RETURN, "run.seed"))
    assert "- system.agents: 2 in run0; 2, then 16 in run0\n" in table
