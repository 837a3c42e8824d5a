"""What a run says of its updates in the terminal."""

import pytest
from commands import EVALUATE_OFF, run

DIVERGING = "Agents act with a policy far from the learner's"


@pytest.mark.parametrize(("learning_rate", "times"), [(0.1, 1), (0.001, 0)])
def test_agents_far_from_the_learners_policy_are_reported_once(tmp_path, learning_rate, times):
    settings = ["run.reproducible=true", "run.agent_steps=5000", f"optimizer.learning_rate={learning_rate}"]
    settings.append("model.normalise_observations=false")
    options = [argument for setting in settings for argument in ("--set", setting)]
    ended = run("train", "-c", "pendulum_a3c", *options, *EVALUATE_OFF, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count(DIVERGING) == times
    assert ended.stdout.count("set model.normalise_observations=true") == times
