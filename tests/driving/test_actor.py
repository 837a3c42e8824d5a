"""One sampler: an actor, for evaluation and play, decides as a predictor does."""

import gymnasium
import numpy as np
import pytest
import torch
from trajectories import ACTIONS, kind

from kartrl.acting import recording
from kartrl.acting.messages import Requests
from kartrl.acting.predictor import Policy
from kartrl.acting.published_weights import published
from kartrl.config import Model
from kartrl.driving.actor import Actor
from kartrl.driving.recorded_actor import Recorded, RecordedActor
from kartrl.envs.masks import ILLEGAL
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.errors import UserError
from kartrl.models import VALUE, make_distribution, make_network

by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)
by_maker = pytest.mark.parametrize("is_recorded", [False, True], ids=["network", "recorded"])
SIDES = ActionSpec.of(gymnasium.spaces.Box(-1, 1, (2,), np.float32))  # shows the last bit
OBSERVATIONS = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def networks():
    torch.manual_seed(3)
    networks = {action: make_network(Model(hidden_size=8, core="lstm"), plain(3), action).eval() for action in ACTIONS}
    for network in networks.values():
        torch.nn.init.orthogonal_(network.policy.weight)  # so that it matters what is seen
    return networks


def recorded(network, section, observation, action, sizes=(2, 4)):
    """The network's programs; what it decides must not depend on their sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "MOST_PRODUCTS", 10**12)
        programs = recording.record(section, observation, action, VALUE, sizes)
    return Recorded(programs, torch.cat([tensor.detach().flatten() for tensor in published(network)]).numpy())


@pytest.fixture(scope="module")
def recordings(networks):
    section = Model(hidden_size=8, core="lstm")
    return {action: recorded(network, section, plain(3), action) for action, network in networks.items()}


def make_actor(network, action, *, greedy):
    return (RecordedActor if isinstance(network, Recorded) else Actor)(network, action, greedy=greedy)


def actions(network, action, *, greedy, seed):
    actor = make_actor(network, action, greedy=greedy)
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


@by_maker
@by_kind
def test_seeds_reproduce_and_differ(networks, recordings, action, is_recorded):
    network = (recordings if is_recorded else networks)[action]
    one = actions(network, action, greedy=False, seed=1)
    np.testing.assert_array_equal(one, actions(network, action, greedy=False, seed=1))
    assert (one != actions(network, action, greedy=False, seed=2)).any()


@by_maker
@by_kind
def test_greedy_actor_takes_likeliest_action_from_empty_memory(networks, recordings, action, is_recorded):
    network = networks[action]
    state, expected = network.initial_state(1), []
    for step, observation in enumerate(torch.from_numpy(OBSERVATIONS)):
        parameters, _, state = network.step(observation[None], torch.tensor([step == 0]), state)
        mode = make_distribution(action).mode(parameters)
        expected.append(action.taken(mode.detach().numpy())[0])
    for seed in (1, 2):
        taken = actions(recordings[action] if is_recorded else network, action, greedy=True, seed=seed)
        np.testing.assert_allclose(taken, np.array(expected), atol=1e-6)


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


@by_maker
@by_kind
@pytest.mark.parametrize("greedy", [False, True])
def test_rows_are_independent_to_the_bit_and_reused(networks, recordings, action, greedy, is_recorded):
    """Five episodes in three rows: each is as if it were alone, whoever else is there and had its row before."""
    network, lengths = (recordings if is_recorded else networks)[action], [20, 5, 12, 9, 4]
    seen = [[OBSERVATIONS[(step + 3 * number) % 20] for step in range(20)] for number in range(5)]
    expected = []
    for number, length in enumerate(lengths):
        alone = make_actor(network, action, greedy=greedy)
        alone.begin(0, number)
        expected.append([alone.act([0], [observation])[0] for observation in seen[number][:length]])
    together, rows, waiting = make_actor(network, action, greedy=greedy), {}, [*range(5)]
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


@by_maker
@pytest.mark.parametrize("encoder", ["convolutional", "a3c", "nature", "a3g", "impala"])
def test_decisions_on_images_do_not_depend_on_others(encoder, is_recorded):
    torch.manual_seed(1)
    section = Model(encoder=encoder, core="lstm")
    network = make_network(section, plain(60, 60, 3), SIDES).eval()
    policies = [network]
    if is_recorded:  # by programs of several sizes
        policies = [recorded(network, section, plain(60, 60, 3), SIDES, sizes) for sizes in ([1], [2, 4], [8])]
    images = np.random.default_rng(0).integers(256, size=(7, 60, 60, 3)).astype(np.uint8)

    def decided(policy, rows):
        actor = make_actor(policy, SIDES, greedy=False)
        for row in rows:
            actor.begin(row, row)
        return [np.stack([*actor.act(rows, images[rows])]) for _ in range(3)]

    alone = np.concatenate([decided(policies[0], [row]) for row in range(7)], 1)
    for policy in policies:
        for count in (2, 3, 4, 5, 7):
            np.testing.assert_array_equal(np.array(decided(policy, [*range(count)])), alone[:, :count])


def test_recorded_actor_takes_legal_actions_only():
    from noisy_agents import MASKED

    torch.manual_seed(1)
    section = Model(hidden_size=8)
    policy = recorded(make_network(section, plain(3), MASKED).eval(), section, plain(3), MASKED)
    restriction = np.full((4, MASKED.parameter_size), ILLEGAL, np.float32)
    restriction[:, [0, 3]] = 0  # the first of each choice
    for greedy in (False, True):
        actor = RecordedActor(policy, MASKED, greedy=greedy)
        for row in range(4):
            actor.begin(row, row)
        taken = np.concatenate([actor.act([*range(4)], OBSERVATIONS[:4], restriction) for _ in range(20)])
        assert not taken.any()
        free = np.concatenate([actor.act([*range(4)], OBSERVATIONS[:4]) for _ in range(20)])
        assert free.any(), "without a restriction all are legal"


def test_recorded_actor_that_knows_of_no_masks_refuses_them(recordings):
    action, policy = next(iter(recordings.items()))
    actor = RecordedActor(policy, action, greedy=True)
    actor.begin(0, 0)
    with pytest.raises(UserError, match="comes only later: give one at reset"):
        actor.act([0], OBSERVATIONS[:1], np.zeros((1, action.parameter_size), np.float32))
