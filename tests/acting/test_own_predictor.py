"""Agents that run the network themselves: what they decide with is what the learner has published."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from noisy_agents import (
    AGENTS,
    CONTINUOUS,
    DISCRETE,
    GROUPS,
    LIVES,
    MASKED,
    RING,
    SIZE,
    NoisyAgent,
    T,
    check_reproduced,
    set_up,
)

from kartrl.acting.agent import play
from kartrl.acting.agent_group import Mailbox, Stopped
from kartrl.acting.own_predictor import OwnNetwork, OwnPredictor
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.recording import record
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.models import VALUE
from kartrl.trajectory import split_decision

BATCHES = [groups * SIZE for groups in range(1, GROUPS + 1)]


def begin(config, slab, agent, seed, own, action=DISCRETE):
    """A life of an agent, in this process."""
    spec = EnvSpec("noise", plain(*slab.observation.shape[3:]), action, 0.0)
    stopwatch = Stopwatch(AGENT_STAGES, slab.stage_seconds[agent])
    predictor = OwnPredictor(config, spec, slab, agent, seed, own, stopwatch)
    mailbox = Mailbox(slab, slab.waker(agent), predictor.serve, predictor.request)
    return NoisyAgent(slab, agent, seed, mailbox, stopwatch)


def own_network(config, network, slab, action=DISCRETE, recorded=True, version=0):
    """What agents run, and what publishes its weights."""
    observation = plain(*slab.observation.shape[3:])
    programs = record(config.model, observation, action, VALUE, BATCHES) if recorded else None
    assert (programs is not None) == recorded
    published = PublishedWeights(network, version=version)
    return OwnNetwork(published.share(), programs), published


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "PyTorch"])
@pytest.mark.parametrize(
    ("shape", "action", "overrides", "tolerance"),
    [
        ((4,), DISCRETE, ["model.core=lstm"], 1e-5),
        ((4,), DISCRETE, ["model.core=none"], 1e-5),
        ((2,), DISCRETE, ["model.core=lstm", "model.critic=separate", "model.normalise_observations=true"], 1e-5),
        ((4,), CONTINUOUS, ["model.core=gru"], 1e-5),
        ((4,), MASKED, ["model.core=lstm"], 1e-5),
        ((54, 54, 1), DISCRETE, ["model.core=lstm", "model.precision=bf16"], 0.02),
        ((54, 54, 1), DISCRETE, ["model.core=none"], 1e-5),
    ],
    ids=["lstm", "feed-forward", "separate critic", "continuous", "masked", "image in bf16", "image"],
)
def test_learner_reproduces_decisions_of_own_predictor(shape, action, overrides, tolerance, recorded):
    config, network, slab = set_up(shape, action, *overrides)
    own, _ = own_network(config, network, slab, action, recorded)
    for life, steps in enumerate(LIVES):
        for agent in range(AGENTS):
            noisy = begin(config, slab, agent, 10 * life + agent, own, action)
            for _ in range(steps):
                noisy.step()
            slab.retire(agent)
            slab.admit(agent)
    check_reproduced(network, slab, action, tolerance)


def test_own_predictor_answers_all_groups_with_newest_weights():
    config, network, slab = set_up()
    own, published = own_network(config, network, slab, version=3)
    noisy = begin(config, slab, 1, 1, own)
    for _ in range(2):
        noisy.step()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    published.publish()
    for _ in range(T - 2):
        noisy.step()
    assert slab.passes.tolist() == [0, T]
    batch = slab.gather(sorted(slab.take_finished(100, 0.0)))
    assert batch.version.tolist() == [[3] * GROUPS * SIZE] * 2 + [[4] * GROUPS * SIZE] * (T - 2)
    decided = split_decision(torch.from_numpy(batch.decision), 1).value
    with torch.no_grad():
        new = network.step(*map(torch.from_numpy, (batch.observation[2], batch.first[2])), torch.zeros(6, 0))[1]
    torch.testing.assert_close(decided[2], new, atol=1e-5, rtol=1e-6)
    assert slab.may_move(1), "its requests wait for nobody else, so it counts as stalled if it makes no more"


def test_passes_of_own_predictor_are_no_waiting():
    config, network, slab = set_up((4,), DISCRETE, "model.encoder=slow_parts:Slow")
    own, _ = own_network(config, network, slab, recorded=False)
    noisy = begin(config, slab, 1, 1, own)
    for _ in range(T):
        noisy.step()
    shares = dict(zip(AGENT_STAGES, slab.stage_seconds[1], strict=True))
    assert shares["act"] > shares["wait_action"], "nobody else had to be waited for"


def test_agent_that_knows_of_no_masks_refuses_late_ones():
    config, network, slab = set_up((1,), DISCRETE, "environment.id=choosing:Late-v0", "environment.kwargs.free=3")
    spec, stopwatch = EnvSpec("late", plain(1), DISCRETE, 0.0), Stopwatch(AGENT_STAGES, slab.stage_seconds[0])
    own, _ = own_network(config, network, slab)
    predictor = OwnPredictor(config, spec, slab, 0, 1, own, stopwatch)
    mailbox = Mailbox(slab, slab.waker(0), predictor.serve, predictor.request)
    ours, theirs = multiprocessing.Pipe()
    with pytest.raises(UserError, match="comes only later"):
        play(config, DISCRETE, slab, 0, 1, mailbox, stopwatch, ours, np.zeros(1, np.int64))
    assert not theirs.poll(), "no episode has ended"


def test_own_predictor_waits_without_free_block_and_ends():
    config, network, slab = set_up()
    noisy = begin(config, slab, 0, 1, own_network(config, network, slab)[0])
    for _ in range(T * RING):
        noisy.step()

    def live():
        with pytest.raises(Stopped):
            noisy.step()

    ended = threading.Thread(target=live, daemon=True)
    ended.start()
    ended.join(0.2)
    assert ended.is_alive(), "all of its blocks are finished"
    slab.stop()
    ended.join(60)
    assert not ended.is_alive()
