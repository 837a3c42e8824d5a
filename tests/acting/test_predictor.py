"""What travelled through the slab: a learner with the same weights computes what the predictor decided with."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from gpu import GPU
from noisy_agents import AGENTS, CONTINUOUS, DISCRETE, GROUPS, LIVES, MASKED, NoisyAgent, T, check_reproduced, set_up

from kartrl.acting.agent_group import Mailbox
from kartrl.acting.messages import Requests
from kartrl.acting.predictor import ArrivalPacing, PredictorThread, group_states, make_policy
from kartrl.acting.published_weights import PublishedWeights, published
from kartrl.acting.slab import Slab, SlabShape
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.hardware.streams import RoleStream
from kartrl.models import for_inference, make_distribution, make_network
from kartrl.trajectory import decision_size, split_decision


def play(slab, agent, seed, steps):
    """A life of an agent."""
    noisy = NoisyAgent(slab, agent, seed, Mailbox(slab, slab.waker(agent)))
    for _ in range(steps):
        noisy.step()


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
        ((4,), MASKED, ["model.core=lstm"], 1e-5),
        ((54, 54, 1), DISCRETE, ["model.core=lstm"], 1e-5),
        ((54, 54, 1), DISCRETE, ["model.core=lstm", "model.precision=bf16"], 0.02),
    ],
    ids=["lstm", "feed-forward", "gru", "separate critic", "continuous", "masked", "image", "bf16"],
)
def test_learner_reproduces_decisions_of_predictors(shape, action, overrides, tolerance, device):
    _, network, slab = set_up(shape, action, *overrides)
    network.to(device)
    stop, distribution = threading.Event(), make_distribution(action)
    policy = make_policy(network, distribution, group_states(slab, network), 1, slab, AGENTS * GROUPS)
    weights = PublishedWeights(network, RoleStream(torch.device(device)))
    pacing = ArrivalPacing(slab, AGENTS * GROUPS, 2)
    predictor = PredictorThread("predictor", slab, policy, weights, pacing, stop)
    predictor.start()
    try:
        for life, steps in enumerate(LIVES):
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
    check_reproduced(network, slab, action, tolerance, device)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_each_batch_has_noise_of_its_own(device):
    """The same requests again and again: actions are drawn anew, and as often as their probabilities say."""
    section = read(overrides=["model.hidden_size=16", "model.core=none"]).model
    network, distribution = make_network(section, plain(4), DISCRETE).to(device), make_distribution(DISCRETE)
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
    network = make_network(section, plain(54, 54, 1), DISCRETE).to(place)
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
