"""One sampler: an actor, for evaluation and play, decides as a predictor does."""

import numpy as np
import pytest
import torch
from trajectories import ACTIONS, kind

from kartrl.config import Model
from kartrl.models import make_distribution, make_network
from kartrl.models.actor import Actor
from kartrl.runtime.messages import Requests
from kartrl.runtime.predictor_thread import Policy

by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)
OBSERVATIONS = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def networks():
    torch.manual_seed(3)
    networks = {action: make_network(Model(hidden_size=8, core="lstm"), (3,), action).eval() for action in ACTIONS}
    for network in networks.values():
        torch.nn.init.orthogonal_(network.policy.weight)  # so that it matters what is seen
    return networks


def actions(network, action, *, greedy, seed):
    actor = Actor(network, action, greedy=greedy, seed=seed)
    return np.array([actor.act(observation) for observation in OBSERVATIONS])


@by_kind
def test_it_decides_as_a_predictor_for_the_same_noise(networks, action):
    network = networks[action]
    states = network.initial_state(2).unflatten(0, (2, 1))
    policy = Policy(network, make_distribution(action), states, seed=5)
    expected, zero = [], np.zeros(1, np.int64)
    for step, observation in enumerate(OBSERVATIONS):
        requests = Requests(zero, zero, zero + step, zero, observation[None, None], np.array([[step == 0]]))
        expected.append(action.taken(policy.act(requests)[0][0])[0])
    np.testing.assert_array_equal(actions(network, action, greedy=False, seed=5), np.array(expected))


@by_kind
def test_seeds_reproduce_and_differ(networks, action):
    one = actions(networks[action], action, greedy=False, seed=1)
    np.testing.assert_array_equal(one, actions(networks[action], action, greedy=False, seed=1))
    assert (one != actions(networks[action], action, greedy=False, seed=2)).any()


@by_kind
def test_greedily_it_takes_the_likeliest_action_with_a_memory_that_begins_empty(networks, action):
    network = networks[action]
    state, expected = network.initial_state(1), []
    for step, observation in enumerate(torch.from_numpy(OBSERVATIONS)):
        parameters, _, state = network.step(observation[None], torch.tensor([step == 0]), state)
        mode = make_distribution(action).mode(parameters)
        expected.append(action.taken(mode.detach().numpy())[0])
    np.testing.assert_array_equal(actions(network, action, greedy=True, seed=1), np.array(expected))
    np.testing.assert_array_equal(actions(network, action, greedy=True, seed=2), np.array(expected))


@by_kind
def test_actions_are_as_the_environment_takes_them(networks, action):
    act = Actor(networks[action], action, greedy=False, seed=0).act(OBSERVATIONS[0])
    if action.kind == "discrete":
        assert act in range(action.size)
        assert act.dtype == np.int64
    else:
        assert act.shape == (action.size,)
        assert act.dtype == np.float32
