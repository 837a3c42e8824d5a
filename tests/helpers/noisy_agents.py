"""Agents whose observations are noise, and a check that a learner computes what their actions were chosen with."""

import multiprocessing
from dataclasses import replace

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete

from kartrl.acting.agent_group import AgentGroup
from kartrl.acting.slab import Slab, SlabShape
from kartrl.config import read
from kartrl.envs.masks import ILLEGAL
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, Continuous
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.models import make_distribution, make_network, run
from kartrl.trajectory import Trajectory, decision_size, split_decision

AGENTS, GROUPS, SIZE, RING, T = 2, 2, 3, 4, 5
DISCRETE = ActionSpec.of(Discrete(4))
CONTINUOUS = ActionSpec((Continuous((-1.0, -2.0), (1.0, 2.0)),))
MASKED = replace(ActionSpec.of(MultiDiscrete([3, 4])), masked=True)
LIVES = T + 2, 2 * T + 1  # steps of each agent's two lives: the first ends within a block


class NoisyAgent:
    """A life of an agent: episodes begin at random."""

    def __init__(self, slab, agent, seed, mailbox, stopwatch=None):
        stopwatch = stopwatch or Stopwatch(AGENT_STAGES)
        numbers = range(agent * GROUPS, (agent + 1) * GROUPS)
        self._groups = [AgentGroup(slab, number, mailbox, stopwatch) for number in numbers]
        self._slab, self._random = slab, np.random.default_rng(seed)
        for group in self._groups:
            group.ask(self._look(), np.ones(SIZE, bool), self._legal())

    def _look(self):
        shape = (SIZE, *self._slab.observation.shape[3:])
        images = self._slab.observation.dtype == np.uint8
        return self._random.integers(256, size=shape) if images else self._random.standard_normal(shape)

    def _legal(self):
        """For `MASKED`: about half of each choice's alternatives, the first always."""
        if self._slab.restriction.size == 0:
            return None
        rows = np.where(self._random.random((SIZE, MASKED.parameter_size)) < 0.5, ILLEGAL, 0.0)
        rows[:, [0, 3]] = 0
        return rows

    def step(self):
        for group in self._groups:
            group.answer()
            group.record(np.zeros(SIZE), np.zeros(SIZE, bool), np.ones(SIZE, bool), np.zeros(SIZE, bool))
            group.ask(self._look(), self._random.random(SIZE) < 0.2, self._legal())


def set_up(shape=(4,), action=DISCRETE, *overrides):
    """A configuration, a network whose policy is far from uniform and whose memory matters, and a slab."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = read(overrides=["model.hidden_size=16", *overrides])
    network, distribution = make_network(config.model, plain(*shape), action), make_distribution(action)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if network.normalises:
        network.observe(1 + 2 * torch.randn(100, *shape))
    dtype = "uint8" if len(shape) == 3 else "float32"
    size = decision_size(action.columns, distribution.parameter_size)
    sizes = (AGENTS, GROUPS, SIZE, RING, T, shape, dtype, size, network.state_size)
    sizes += (action.parameter_size * action.masked,)
    return config, network, Slab(multiprocessing.get_context("spawn"), SlabShape(*sizes))


def check_reproduced(network, slab, action, tolerance, device="cpu"):
    """A learner with the same weights computes what the agents decided in their two `LIVES`."""
    distribution = make_distribution(action)
    blocks = sorted(slab.take_finished(100, 0.0))
    assert len(blocks) == 3 * AGENTS * GROUPS
    batch = Trajectory(*(torch.from_numpy(array).to(device) for array in slab.gather(blocks)))
    assert batch.first[1:].any(), "episodes begin within unrolls"
    if network.state_size:
        assert (batch.initial_state != 0).any(), "and unrolls within episodes"
    acted = split_decision(batch.decision, action.columns)
    assert (acted.action[0] != acted.action[1]).any()
    with torch.no_grad():
        output = run(network, batch)
        log_prob = distribution.log_prob(output.policy[:-1], acted.action)
    scale = output.value.std(), output.policy.std()
    assert min(scale) > 0.01, "there is something to be reproduced"
    torch.testing.assert_close(log_prob, acted.log_prob, atol=tolerance, rtol=0)
    torch.testing.assert_close(output.value[:-1], acted.value, atol=tolerance, rtol=0)
    torch.testing.assert_close(output.policy[:-1], acted.parameters, atol=tolerance, rtol=0)
    if action.masked:
        assert 0.2 < (acted.parameters == ILLEGAL).float().mean() < 0.5
        assert (acted.log_prob > -20).all()
