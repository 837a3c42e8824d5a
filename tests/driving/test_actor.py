"""One sampler: an actor, for evaluation and play, decides as a predictor does."""

import numpy as np
import pytest
import torch
from trajectories import ACTIONS, kind

from kartrl.acting.messages import Requests
from kartrl.acting.predictor import Policy
from kartrl.config import Model
from kartrl.driving.actor import Actor
from kartrl.models import make_distribution, make_network

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
    actor = Actor(network, action, greedy=greedy, seeds=[seed])
    return np.array([actor.act([observation])[0] for observation in OBSERVATIONS])


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
    act = Actor(networks[action], action, greedy=False, seeds=[0]).act(OBSERVATIONS[:1])[0]
    if action.choices:
        assert act in range(action.choices)
        assert act.dtype == np.int64
    else:
        assert act.shape == (action.columns,)
        assert act.dtype == np.float32


@by_kind
@pytest.mark.parametrize("greedy", [False, True])
def test_episodes_of_a_batch_are_independent_and_may_end_in_any_order(networks, action, greedy):
    network, seeds = networks[action], [7, 8, 9]
    lengths, offsets = [20, 5, 12], [0, 3, 6]  # so that each sees other observations
    seen = [[OBSERVATIONS[(step + offset) % 20] for step in range(20)] for offset in offsets]
    expected = []
    for seed, observations, length in zip(seeds, seen, lengths, strict=True):
        alone = Actor(network, action, greedy=greedy, seeds=[seed])
        expected.append([alone.act([observation])[0] for observation in observations[:length]])
    together, rows = Actor(network, action, greedy=greedy, seeds=seeds), [0, 1, 2]
    taken = [[], [], []]
    for step in range(20):
        going = [place for place, row in enumerate(rows) if step < lengths[row]]
        if len(going) < len(rows):
            together.keep(going)
            rows = [rows[place] for place in going]
        for row, one in zip(rows, together.act([seen[row][step] for row in rows]), strict=True):
            taken[row].append(one)
    for one, alone in zip(taken, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(alone), atol=1e-5)
