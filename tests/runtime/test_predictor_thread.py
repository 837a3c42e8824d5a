"""What travelled through the slab: a learner with the same weights computes what the predictor decided with."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from gpu import GPU

from kartrl.config import read
from kartrl.envs.spec import ActionSpec
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.models import for_inference, make_distribution, make_network
from kartrl.runtime.agent_group import AgentGroup, Mailbox
from kartrl.runtime.messages import Requests
from kartrl.runtime.predictor_thread import ArrivalPacing, PredictorThread, group_states, make_policy
from kartrl.runtime.published_weights import PublishedWeights, published
from kartrl.runtime.role_stream import RoleStream
from kartrl.runtime.slab import Slab, SlabShape
from kartrl.trajectory import Trajectory, decision_size, split_decision

AGENTS, GROUPS, SIZE, RING, T = 2, 2, 3, 4, 5
DISCRETE = ActionSpec("discrete", 4)
CONTINUOUS = ActionSpec("continuous", 2, (-1.0, -2.0), (1.0, 2.0))


def play(slab, agent, seed, steps):
    """A life of an agent: observations are noise, and episodes begin at random."""
    random = np.random.default_rng(seed)
    mailbox = Mailbox(slab, slab.waker(agent))
    numbers = range(agent * GROUPS, (agent + 1) * GROUPS)
    groups = [AgentGroup(slab, number, mailbox, Stopwatch(AGENT_STAGES)) for number in numbers]
    shape = (SIZE, *slab.observation.shape[3:])

    def look():
        images = slab.observation.dtype == np.uint8
        return random.integers(256, size=shape) if images else random.standard_normal(shape)

    for group in groups:
        group.ask(look(), np.ones(SIZE, bool))
    for _ in range(steps):
        for group in groups:
            group.answer()
            group.record(np.zeros(SIZE), np.zeros(SIZE, bool), np.ones(SIZE, bool), np.zeros(SIZE, bool))
            group.ask(look(), random.random(SIZE) < 0.2)


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize(
    ("shape", "action", "overrides", "tolerance"),
    [
        ((4,), DISCRETE, ["model.core=lstm"], 1e-5),
        ((4,), DISCRETE, ["model.core=none"], 1e-5),
        ((4,), DISCRETE, ["model.core=gru"], 1e-5),
        ((2,), DISCRETE, ["model.core=lstm", "model.critic=separate", "model.normalise_observations=true"], 1e-5),
        ((4,), CONTINUOUS, ["model.core=lstm"], 1e-5),
        ((54, 54, 1), DISCRETE, ["model.core=lstm"], 1e-5),
        ((54, 54, 1), DISCRETE, ["model.core=lstm", "model.precision=bf16"], 0.02),
        ((54, 54, 1), DISCRETE, ["model.core=lstm", "model.torchscript=false"], 1e-5),
    ],
    ids=["lstm", "feed-forward", "gru", "separate critic", "continuous", "image", "bf16", "eager"],
)
def test_the_learner_reproduces_what_the_predictor_decided(shape, action, overrides, tolerance, device):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    section = read(overrides=["model.hidden_size=16", *overrides]).model
    network, distribution = make_network(section, shape, action), make_distribution(action)
    with torch.no_grad():
        for parameter in network.parameters():  # policies that are far from uniform, and memories that matter
            parameter.add_(0.1 * torch.randn_like(parameter))
    if network.normalises:
        network.observe(1 + 2 * torch.randn(100, *shape))
    network.to(device)
    dtype = "uint8" if len(shape) == 3 else "float32"
    size = decision_size(action.columns, distribution.parameter_size)
    sizes = (AGENTS, GROUPS, SIZE, RING, T, shape, dtype, size, network.state_size)
    slab, stop = Slab(multiprocessing.get_context("spawn"), SlabShape(*sizes)), threading.Event()
    policy = make_policy(network, distribution, group_states(slab, network), 1, slab, AGENTS * GROUPS)
    weights = PublishedWeights(network, RoleStream(torch.device(device)))
    pacing = ArrivalPacing(slab, AGENTS * GROUPS, 2)
    predictor = PredictorThread("predictor", slab, policy, weights, pacing, stop)
    predictor.start()
    try:
        for life, steps in enumerate((T + 2, 2 * T + 1)):  # the first ends within a block
            agents = [
                threading.Thread(target=play, args=(slab, agent, [life, agent], steps)) for agent in range(AGENTS)
            ]
            for thread in agents:
                thread.start()
            for agent, thread in enumerate(agents):
                thread.join(60)
                assert not thread.is_alive()
                slab.retire(agent)
                with predictor.predicting:
                    pass
                slab.admit(agent)
    finally:
        stop.set()
        predictor.join(60)

    blocks = sorted(slab.take_finished(100, 0.0))
    assert len(blocks) == 3 * AGENTS * GROUPS
    batch = Trajectory(*(torch.from_numpy(array).to(device) for array in slab.gather(blocks)))
    assert batch.first[1:].any(), "episodes begin within unrolls"
    if network.state_size:
        assert (batch.initial_state != 0).any(), "and unrolls within episodes"
    acted = split_decision(batch.decision, action.columns)
    with torch.no_grad():
        output, _ = network(batch.observation, batch.first, batch.initial_state)
        log_prob = distribution.log_prob(output.policy[:-1], acted.action)
    scale = output.value.std(), output.policy.std()
    assert min(scale) > 0.01, "there is something to be reproduced"
    torch.testing.assert_close(log_prob, acted.log_prob, atol=tolerance, rtol=0)
    torch.testing.assert_close(output.value[:-1], acted.value, atol=tolerance, rtol=0)
    torch.testing.assert_close(output.policy[:-1], acted.parameters, atol=tolerance, rtol=0)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_each_batch_has_noise_of_its_own(device):
    """The same requests again and again: actions are drawn anew, and as often as their probabilities say."""
    section = read(overrides=["model.hidden_size=16", "model.core=none"]).model
    network, distribution = make_network(section, (4,), DISCRETE).to(device), make_distribution(DISCRETE)
    size = decision_size(DISCRETE.columns, distribution.parameter_size)
    slab = Slab(multiprocessing.get_context("spawn"), SlabShape(1, 3, 8, 2, T, (4,), "float32", size, 0))
    policy = make_policy(network, distribution, group_states(slab, network), 1, slab, 3)
    numbers, looks = np.arange(3), np.zeros((3, 8, 4), np.float32)
    requests = Requests(numbers, numbers, numbers, 0 * numbers, looks, np.zeros((3, 8), bool))
    drawn, probabilities = [], []
    for _ in range(200):
        acted = split_decision(torch.from_numpy(policy.act(requests)[0].copy()), 1)
        drawn.append(acted.action.long().flatten())
        probabilities.append(acted.parameters.softmax(-1).reshape(-1, 4))
    actions, probability = torch.stack(drawn), probabilities[0][0]
    assert (actions[1:] != actions[:-1]).float().mean() > 0.5, "from batch to batch"
    assert (actions[:, 1:] != actions[:, :-1]).float().mean() > 0.5, "and within one"
    frequency = torch.bincount(actions.flatten(), minlength=4) / actions.numel()
    torch.testing.assert_close(frequency, probability, atol=0.03, rtol=0)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_predictor_never_has_half_of_an_update(device):
    """A trainer publishes while predictors fetch, each on its own stream; each weight must be of one version."""
    section = read(overrides=["model.hidden_size=256", "model.core=lstm"]).model
    place = torch.device(device)
    network = make_network(section, (54, 54, 1), DISCRETE).to(place)
    with torch.no_grad():
        for tensor in published(network):
            tensor.zero_()
    trainer = RoleStream(place)
    weights, failures, done = PublishedWeights(network, trainer), [], threading.Event()

    def fetch():
        stream, own, version, seen = RoleStream(place), for_inference(network).to(place), -1, set()
        with stream.current(), torch.no_grad():
            while not (done.is_set() and version == weights.version):
                version = weights.fetch(own, version, stream)
                values = torch.cat([tensor.flatten() for tensor in published(own)])
                lowest, highest = float(values.min()), float(values.max())
                seen.add(lowest)
                if not lowest == highest == version:
                    failures.append((version, lowest, highest))
                    return
        if len(seen) < 2:
            failures.append(f"saw only {seen}")

    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    with trainer.current(), torch.no_grad():
        for _ in range(300):
            for tensor in published(network):
                tensor.add_(1)
            weights.publish()
    done.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
