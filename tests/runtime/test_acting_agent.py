"""Agents that run the network themselves: what they decide with is what the learner has published."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch

from kartrl.config import read
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.models import make_distribution, make_network
from kartrl.runtime.acting_agent import OwnPredictor
from kartrl.runtime.agent_group import AgentGroup, Mailbox, Stopped
from kartrl.runtime.published_weights import PublishedWeights
from kartrl.runtime.slab import Slab, SlabShape
from kartrl.trajectory import Trajectory, decision_size, split_decision

AGENTS, GROUPS, SIZE, RING, T = 2, 2, 3, 4, 5
DISCRETE = ActionSpec("discrete", 4)
CONTINUOUS = ActionSpec("continuous", 2, (-1.0, -2.0), (1.0, 2.0))


class Life:
    """An agent's groups, its mailbox and its predictor; observations are noise, and episodes begin at random."""

    def __init__(self, config, spec, slab, agent, seed, weights):
        self.stopwatch = Stopwatch(AGENT_STAGES, slab.stage_seconds[agent])
        predictor = OwnPredictor(config, spec, slab, agent, seed, weights, self.stopwatch)
        self.mailbox = Mailbox(slab, slab.waker(agent), predictor.serve, predictor.request)
        numbers = range(agent * GROUPS, (agent + 1) * GROUPS)
        self.groups = [AgentGroup(slab, number, self.mailbox, self.stopwatch) for number in numbers]
        self._slab, self._random = slab, np.random.default_rng(seed)
        for group in self.groups:
            group.ask(self._look(), np.ones(SIZE, bool))

    def _look(self):
        shape = (SIZE, *self._slab.observation.shape[3:])
        images = self._slab.observation.dtype == np.uint8
        return self._random.integers(256, size=shape) if images else self._random.standard_normal(shape)

    def step(self):
        for group in self.groups:
            group.answer()
            group.record(np.zeros(SIZE), np.zeros(SIZE, bool), np.ones(SIZE, bool), np.zeros(SIZE, bool))
            group.ask(self._look(), self._random.random(SIZE) < 0.2)


def set_up(shape=(4,), action=DISCRETE, *overrides):
    """A configuration, the environment's spec, a slab, and a network far from uniform with its weights."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = read(overrides=["model.hidden_size=16", *overrides])
    spec = EnvSpec("noise", shape, "uint8" if len(shape) == 3 else "float32", action, 0.0)
    network = make_network(config.model, shape, action)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if network.normalises:
        network.observe(1 + 2 * torch.randn(100, *shape))
    size = decision_size(action.columns, make_distribution(action).parameter_size)
    sizes = (AGENTS, GROUPS, SIZE, RING, T, shape, spec.observation_dtype, size, network.state_size)
    return config, spec, Slab(multiprocessing.get_context("spawn"), SlabShape(*sizes)), network


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize(
    ("shape", "action", "overrides", "tolerance"),
    [
        ((4,), DISCRETE, ["model.core=lstm"], 1e-5),
        ((4,), DISCRETE, ["model.core=none"], 1e-5),
        ((2,), DISCRETE, ["model.core=lstm", "model.critic=separate", "model.normalise_observations=true"], 1e-5),
        ((4,), CONTINUOUS, ["model.core=gru"], 1e-5),
        ((54, 54, 1), DISCRETE, ["model.core=lstm", "model.precision=bf16"], 0.02),
        ((54, 54, 1), DISCRETE, ["model.core=none", "model.torchscript=false"], 1e-5),
    ],
    ids=["lstm", "feed-forward", "separate critic", "continuous", "image in bf16", "eager"],
)
def test_the_learner_reproduces_what_an_agent_decided_by_itself(shape, action, overrides, tolerance):
    config, spec, slab, network = set_up(shape, action, *overrides)
    weights = PublishedWeights(network).share()
    for life, steps in enumerate((T + 2, 2 * T + 1)):  # the first ends within a block
        for agent in range(AGENTS):
            lived = Life(config, spec, slab, agent, 10 * life + agent, weights)
            for _ in range(steps):
                lived.step()
            slab.retire(agent)
            slab.admit(agent)
    blocks = sorted(slab.take_finished(100, 0.0))
    assert len(blocks) == 3 * AGENTS * GROUPS
    batch = Trajectory(*map(torch.from_numpy, slab.gather(blocks)))
    assert batch.first[1:].any(), "episodes begin within unrolls"
    if network.state_size:
        assert (batch.initial_state != 0).any(), "and unrolls within episodes"
    acted, distribution = split_decision(batch.decision, action.columns), make_distribution(action)
    with torch.no_grad():
        output, _ = network(batch.observation, batch.first, batch.initial_state)
        log_prob = distribution.log_prob(output.policy[:-1], acted.action)
    assert min(output.value.std(), output.policy.std()) > 0.01, "there is something to be reproduced"
    assert (acted.action[0] != acted.action[1]).any()
    torch.testing.assert_close(log_prob, acted.log_prob, atol=tolerance, rtol=0)
    torch.testing.assert_close(output.value[:-1], acted.value, atol=tolerance, rtol=0)
    torch.testing.assert_close(output.policy[:-1], acted.parameters, atol=tolerance, rtol=0)


def test_one_forward_pass_answers_all_groups_of_an_agent_with_the_newest_weights():
    config, spec, slab, network = set_up()
    published = PublishedWeights(network, version=3)
    lived = Life(config, spec, slab, 1, 1, published.share())
    for _ in range(2):
        lived.step()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    published.publish()
    for _ in range(T - 2):
        lived.step()
    assert slab.passes.tolist() == [0, T]
    batch = slab.gather(sorted(slab.take_finished(100, 0.0)))
    assert batch.version.tolist() == [[3] * GROUPS * SIZE] * 2 + [[4] * GROUPS * SIZE] * (T - 2)
    decided = split_decision(torch.from_numpy(batch.decision), 1).value
    with torch.no_grad():
        new = network.step(*map(torch.from_numpy, (batch.observation[2], batch.first[2])), torch.zeros(6, 0))[1]
    torch.testing.assert_close(decided[2], new, atol=1e-5, rtol=0)
    shares = dict(zip(AGENT_STAGES, slab.stage_seconds[1], strict=True))
    assert shares["act"] > shares["wait_action"], "nobody else had to be waited for"
    assert slab.may_move(1), "its requests wait for nobody else, so it counts as stalled if it makes no more"


def test_an_agent_that_acts_by_itself_ends_with_the_run_and_waits_while_it_is_paused_or_has_no_free_block():
    config, spec, slab, network = set_up()
    lived = Life(config, spec, slab, 0, 1, PublishedWeights(network).share())
    for _ in range(T * RING):
        lived.step()

    def live():
        with pytest.raises(Stopped):
            lived.step()

    ended = threading.Thread(target=live, daemon=True)
    ended.start()
    ended.join(0.2)
    assert ended.is_alive(), "all of its blocks are finished"
    slab.stop()
    ended.join(60)
    assert not ended.is_alive()

    config, spec, slab, network = set_up()
    lived = Life(config, spec, slab, 0, 1, PublishedWeights(network).share())
    lived.step()
    slab.run_agents(0)
    paused = threading.Thread(target=lived.step, daemon=True)
    paused.start()
    paused.join(0.2)
    assert paused.is_alive()
    slab.run_agents(AGENTS)
    paused.join(60)
    assert not paused.is_alive()
    slab.stop()
    with pytest.raises(Stopped):
        lived.step()
