"""One sampler: an actor, for evaluation and play, decides as a predictor does."""

import gymnasium
import numpy as np
import pytest
import torch
from trajectories import ACTIONS, kind

from kartrl.acting.messages import Requests
from kartrl.acting.predictor import Policy
from kartrl.config import Model
from kartrl.driving.actor import Actor
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.models import make_distribution, make_network

by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)
SIDES = ActionSpec.of(gymnasium.spaces.Box(-1, 1, (2,), np.float32))  # shows the last bit
OBSERVATIONS = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def networks():
    torch.manual_seed(3)
    networks = {action: make_network(Model(hidden_size=8, core="lstm"), plain(3), action).eval() for action in ACTIONS}
    for network in networks.values():
        torch.nn.init.orthogonal_(network.policy.weight)  # so that it matters what is seen
    return networks


def actions(network, action, *, greedy, seed):
    actor = Actor(network, action, greedy=greedy)
    actor.begin(0, seed)
    return np.array([actor.act([0], [observation])[0] for observation in OBSERVATIONS])


@by_kind
def test_actor_decides_as_a_predictor_for_the_same_noise(networks, action):
    network = networks[action]
    states = network.initial_state(2).unflatten(0, (2, 1))
    policy = Policy(network, make_distribution(action), states, seed=5)
    expected, zero = [], np.zeros(1, np.int64)
    for step, observation in enumerate(OBSERVATIONS):
        requests = Requests(zero, zero, zero + step, zero, observation[None, None], np.array([[step == 0]]))
        expected.append(action.taken(policy.act(requests)[0][0])[0])
    np.testing.assert_allclose(actions(network, action, greedy=False, seed=5), np.array(expected), atol=1e-6, rtol=1e-5)


@by_kind
def test_seeds_reproduce_and_differ(networks, action):
    one = actions(networks[action], action, greedy=False, seed=1)
    np.testing.assert_array_equal(one, actions(networks[action], action, greedy=False, seed=1))
    assert (one != actions(networks[action], action, greedy=False, seed=2)).any()


@by_kind
def test_greedy_actor_takes_likeliest_action_from_empty_memory(networks, action):
    network = networks[action]
    state, expected = network.initial_state(1), []
    for step, observation in enumerate(torch.from_numpy(OBSERVATIONS)):
        parameters, _, state = network.step(observation[None], torch.tensor([step == 0]), state)
        mode = make_distribution(action).mode(parameters)
        expected.append(action.taken(mode.detach().numpy())[0])
    np.testing.assert_allclose(actions(network, action, greedy=True, seed=1), np.array(expected), atol=1e-6)
    np.testing.assert_allclose(actions(network, action, greedy=True, seed=2), np.array(expected), atol=1e-6)


@by_kind
def test_actions_are_as_the_environment_takes_them(networks, action):
    actor = Actor(networks[action], action, greedy=False)
    actor.begin(0, 0)
    act = actor.act([0], OBSERVATIONS[:1])[0]
    if action.choices:
        assert act in range(action.choices)
        assert act.dtype == np.int64
    else:
        assert act.shape == (action.columns,)
        assert act.dtype == np.float32


@by_kind
@pytest.mark.parametrize("greedy", [False, True])
def test_rows_are_independent_to_the_bit_and_reused(networks, action, greedy):
    """Five episodes in three rows: each is as if it were alone, whoever else is there and had its row before."""
    network, lengths = networks[action], [20, 5, 12, 9, 4]
    seen = [[OBSERVATIONS[(step + 3 * number) % 20] for step in range(20)] for number in range(5)]
    expected = []
    for number, length in enumerate(lengths):
        alone = Actor(network, action, greedy=greedy)
        alone.begin(0, number)
        expected.append([alone.act([0], [observation])[0] for observation in seen[number][:length]])
    together, rows, waiting = Actor(network, action, greedy=greedy), {}, [*range(5)]
    taken = [[] for _ in range(5)]
    while waiting or rows:
        for row in range(3):
            if row not in rows and waiting:
                rows[row] = waiting.pop(0)
                together.begin(row, rows[row])
        observations = [seen[number][len(taken[number])] for number in rows.values()]
        for row, one in zip([*rows], together.act([*rows], observations), strict=True):
            taken[rows[row]].append(one)
            if len(taken[rows[row]]) == lengths[rows[row]]:
                del rows[row]
    for one, alone in zip(taken, expected, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(alone))


@pytest.mark.parametrize("encoder", ["convolutional", "a3c", "nature", "a3g", "impala"])
def test_decisions_on_images_do_not_depend_on_others(encoder):
    torch.manual_seed(1)
    network = make_network(Model(encoder=encoder, core="lstm"), plain(60, 60, 3), SIDES).eval()
    images = np.random.default_rng(0).integers(256, size=(7, 60, 60, 3)).astype(np.uint8)

    def decided(rows):
        actor = Actor(network, SIDES, greedy=False)
        for row in rows:
            actor.begin(row, row)
        return [np.stack([*actor.act(rows, images[rows])]) for _ in range(3)]

    alone = np.concatenate([decided([row]) for row in range(7)], 1)
    for count in (2, 3, 4, 5, 7):
        np.testing.assert_array_equal(np.array(decided([*range(count)])), alone[:, :count])
