"""Actions of every kind are learned, with and without masks; `benchmarks/actions.toml` with three seeds."""

from statistics import fmean

import choosing
import numpy as np
import pytest
from alone import Alone

from kartrl.config import read
from kartrl.driving.episodes import drive
from kartrl.envs.worlds import load_world

SETTINGS = ("model.hidden_size=32", "algorithm.discount=0", "optimizer.learning_rate=0.005", "run.agent_steps=5000")
ALGORITHMS = ("ppo", "appo", "impala")
PAIRS = [(kind, ALGORITHMS[index % 3]) for index, kind in enumerate(choosing.SPACES)]


def choose(name: str, kind: str, *overrides: str):
    return read(overrides=[f"environment.id=choosing:{name}-{kind}-v0", *overrides])


@pytest.mark.parametrize(("kind", "algorithm"), PAIRS, ids=choosing.SPACES)
def test_each_kind_of_action_is_learned(kind, algorithm):
    returns = Alone(choose("Choose", kind, f"algorithm.name={algorithm}", *SETTINGS)).returns
    before, after = fmean(returns[:50]), fmean(returns[-50:])
    assert after - before > 0.4 * (choosing.STEPS - before), (before, after)


@pytest.mark.parametrize(("algorithm", "core"), [("appo", "none"), ("ppo", "lstm")])
def test_masked_actions_are_learned_and_none_is_illegal(algorithm, core):
    """The environment raises an exception for an illegal action; the policy is then driven, greedily and sampled."""
    settings = f"algorithm.name={algorithm}", f"model.core={core}", *SETTINGS, "run.agent_steps=6000"
    config = choose("Legal", "dict", *settings)
    alone = Alone(config)
    assert alone.spec.action.masked
    before, after = fmean(alone.returns[:50]), fmean(alone.returns[-50:])
    assert after - before > 0.2 * (choosing.STEPS - before), (before, after)
    world = load_world(config)
    env = world.open_env(training=False)
    for greedy in (True, False):
        driven = drive(world, env, alone.network.eval(), "", greedy=greedy, seed=3)
        assert driven.episode.agent_steps == choosing.STEPS
    env.close()


@pytest.mark.parametrize("algorithm", ["a2c", "a3c", "appo", "impala", "ppo"])
def test_never_legal_actions_have_no_gradient(algorithm):
    """Weights of the logits of such actions stay as they were, bit for bit, and the others learn."""
    settings = ("environment.wrapper=choosing:never_the_first", "run.agent_steps=600", "optimizer.weight_decay=0")
    config = choose("Legal", "multi-discrete", f"algorithm.name={algorithm}", "model.hidden_size=8", *settings)
    alone = Alone(config)
    before = Alone.network_of(config, alone.spec).policy
    moved = (alone.network.policy.weight != before.weight).any(1) | (alone.network.policy.bias != before.bias)
    np.testing.assert_array_equal(moved.numpy(), [False, True, True, False, True, True, True])
