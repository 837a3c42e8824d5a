"""Observations of several parts are learned from, each part of them, by every kind of algorithm."""

from statistics import fmean

import parts_zoo
import pytest
from alone import Alone

from kartrl.config import read

SETTINGS = (
    "environment.id=parts_zoo:Signals-v0",
    *("environment.height=20", "environment.width=20", "model.kernels=4", "model.strides=4", "model.channels=8"),
    *("model.hidden_size=32", "algorithm.discount=0", "optimizer.learning_rate=0.005", "run.agent_steps=5000"),
)
WITHOUT_A_PART = parts_zoo.LENGTH * (1 - 0.5 / parts_zoo.BITS)  # the best return of a policy that lacks one


@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm.name=appo"],
        ["algorithm.name=impala", "model.core=lstm", "model.critic=separate"],
        ["algorithm.name=ppo", "environment.frame_stack=2", "model.normalise_observations=true"],
    ],
    ids=lambda overrides: overrides[0].partition("=")[2],
)
def test_observations_of_several_parts_are_learned(overrides):
    returns = Alone(read(overrides=[*SETTINGS, *overrides])).returns
    before, after = fmean(returns[:50]), fmean(returns[-50:])
    assert after - before > 0.4 * (parts_zoo.LENGTH - before), (before, after)


def test_a_trained_policy_uses_all_four_parts():
    returns = Alone(read(overrides=[*SETTINGS, "algorithm.name=appo", "run.agent_steps=7000"])).returns
    assert fmean(returns[-50:]) > WITHOUT_A_PART + 0.5
