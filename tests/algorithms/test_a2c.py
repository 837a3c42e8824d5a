"""A2C's and A3C's targets, loss and gradient against loops over single steps in float64."""

import functools

import numpy as np
import pytest
import torch
from losses import GAMMA, HeadCase, assert_invalid_steps_do_not_count, assert_parts_add_up
from trajectories import ACTIONS, DISCRETE, kind, pieces, random_trajectory, said, slow_kl

from kartrl.algorithms.a2c import A2C, last_value
from kartrl.algorithms.a3c import A3C
from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.config import Model
from kartrl.config.algorithms import A2C as Section
from kartrl.config.algorithms import A3C as A3CSection
from kartrl.config.schedule import constant
from kartrl.envs.observation_spec import plain
from kartrl.models import Output, make_distribution, make_network
from kartrl.trajectory import split_decision

by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)
by_core = pytest.mark.parametrize("core", ["lstm", "none"])


@functools.cache
def network_for(action, core="lstm"):
    torch.manual_seed(11)
    return make_network(Model(hidden_size=8, core=core), plain(3), action)


def value_by_steps(network, trajectory):
    """V(x_T), with the network asked step after step."""
    state = trajectory.initial_state
    for observation, first in zip(trajectory.observation, trajectory.first, strict=True):
        _, value, state = network.step(observation, first, state)
    return value


class Case(HeadCase):
    """With a network that gives the last value."""

    def __init__(self, action, seed=0, core="lstm", section=None, algorithm=A2C):
        self.network = network_for(action, core)
        section = section or Section(gae_lambda=0.95)
        super().__init__(algorithm, section, action, seed, state_size=self.network.state_size)


def slow_advantage(case, gae_lambda):
    """Each episode's piece on its own, from the values that were acted with."""
    trajectory = case.trajectory
    value = split_decision(trajectory.decision, case.action.columns).value.numpy()
    values = np.vstack([value, value_by_steps(case.network, trajectory).detach().numpy()])
    reward = trajectory.reward.numpy().clip(-1, 1)
    advantage = np.zeros_like(reward)
    for b in range(reward.shape[1]):
        for first, end, bootstrap in pieces(trajectory.terminated[:, b].numpy(), trajectory.valid[:, b].numpy()):
            following = 0.0
            for t in reversed(range(first, end)):
                after = values[t + 1, b] if t + 1 < end else 0.0 if bootstrap is None else values[bootstrap, b]
                following = reward[t, b] + GAMMA * after - values[t, b] + GAMMA * gae_lambda * following
                advantage[t, b] = following
    return advantage


def slow(case):
    """Terms of the loss, and the gradients with respect to the head and the value."""
    trajectory, section = case.trajectory, case.section
    acted, valid = split_decision(trajectory.decision, case.action.columns).value.numpy(), trajectory.valid.numpy()
    advantage = slow_advantage(case, section.gae_lambda)
    target = acted + (advantage if section.value_target == "lambda" else slow_advantage(case, 1.0))
    if section.normalise_advantages:
        advantage = (advantage - advantage[valid].mean()) / advantage[valid].std()
    taken = split_decision(trajectory.decision, case.action.columns).action.numpy()
    head, value = case.head.detach().numpy(), case.value.detach().numpy()
    terms = dict.fromkeys(("policy_gradient", "value", "entropy"), 0.0)
    head_gradient, value_gradient = np.zeros_like(head), np.zeros_like(value)
    for t, b in np.argwhere(valid):
        step = said(case.action, head[t, b], taken[t, b])
        error = target[t, b] - value[t, b]
        terms["policy_gradient"] -= advantage[t, b] * step.log_prob / case.steps
        terms["value"] += 0.5 * error**2 / case.steps
        terms["entropy"] += step.entropy / case.steps
        head_gradient[t, b] = (
            -advantage[t, b] * step.log_prob_gradient - section.entropy_cost.at(0) * step.entropy_gradient
        )
        value_gradient[t, b] = -section.value_cost * error
    return terms, head_gradient / case.steps, value_gradient / case.steps


@by_kind
@by_core
@pytest.mark.parametrize(("algorithm", "make_section"), [(A2C, Section), (A3C, A3CSection)], ids=["a2c", "a3c"])
@pytest.mark.parametrize(("normalise", "target"), [(False, "lambda"), (True, "lambda"), (True, "n-step")])
def test_loss_and_its_gradient_equal_loops_over_single_steps(action, core, algorithm, make_section, normalise, target):
    costs = {"value_cost": 0.7, "entropy_cost": 0.03}
    section = make_section(gae_lambda=0.8, normalise_advantages=normalise, value_target=target, **costs)
    case = Case(action, core=core, section=section, algorithm=algorithm)
    loss = case.loss()
    loss.total.backward()
    terms, head_gradient, value_gradient = slow(case)
    if algorithm is A3C:
        del loss.terms["behaviour_kl"]
    assert {name: term.item() for name, term in loss.terms.items()} == pytest.approx(terms, rel=1e-5, abs=1e-6)
    total = loss.terms["policy_gradient"] + 0.7 * loss.terms["value"] - 0.03 * loss.terms["entropy"]
    torch.testing.assert_close(loss.total, total)
    np.testing.assert_allclose(case.head.grad.numpy(), head_gradient, atol=1e-6)
    np.testing.assert_allclose(case.value.grad.numpy(), value_gradient, atol=1e-6)


@by_kind
def test_a3c_reports_divergence_from_acting_policy(action):
    case = Case(action, algorithm=A3C, section=A3CSection())
    loss, trajectory = case.loss(), case.trajectory
    behaviour = split_decision(trajectory.decision, action.columns)
    divergence, weights = 0.0, np.ones(trajectory.reward.shape)
    for t, b in np.argwhere(trajectory.valid.numpy()):
        taken, head = behaviour.action[t, b].numpy(), case.head[t, b].detach().numpy()
        log_prob = said(action, head, taken).log_prob
        weights[t, b] = np.exp(log_prob - said(action, behaviour.parameters[t, b].numpy(), taken).log_prob)
        divergence += slow_kl(action, behaviour.parameters[t, b], case.head[t, b].detach()).item() / case.steps
    assert loss.terms["behaviour_kl"].item() == pytest.approx(divergence, rel=1e-5)
    valid = trajectory.valid.numpy()
    np.testing.assert_allclose(loss.steps["importance_weight"].numpy()[valid], weights[valid], rtol=1e-5)


@by_kind
def test_parts_of_batch_add_up_with_advantages_normalised_whole(action):
    section = Section(normalise_advantages=True)
    whole, parts = Case(action, 4, section=section), Case(action, 4, section=section)
    chosen = whole.prepare().targets["advantage"][whole.trajectory.valid]
    assert chosen.mean().item() == pytest.approx(0, abs=1e-9)
    assert chosen.std(correction=0).item() == pytest.approx(1, abs=1e-6)
    assert_parts_add_up(whole, parts)


def test_normalising_leaves_the_values_targets_alone():
    plain = Case(DISCRETE, 4).prepare()
    normalised = Case(DISCRETE, 4, section=Section(gae_lambda=0.95, normalise_advantages=True)).prepare()
    assert torch.equal(plain.targets["value_target"], normalised.targets["value_target"])
    assert not torch.allclose(plain.targets["advantage"], normalised.targets["advantage"])


@by_kind
@by_core
def test_the_last_value_is_the_networks_after_all_steps(action, core):
    network = network_for(action, core)
    trajectory = random_trajectory(action, 3, state_size=network.state_size)
    assert trajectory.first[1:].any(), "resets inside"
    value = last_value(network, trajectory)
    assert value.shape == trajectory.reward.shape[1:]
    torch.testing.assert_close(value, value_by_steps(network, trajectory), atol=1e-6, rtol=1e-5)


def test_the_values_that_were_acted_with_are_the_targets_values():
    """Not those of the network that learns, which would give the same only as long as nothing lags."""
    case = Case(DISCRETE, 5, section=Section(gae_lambda=0.0))
    batch = case.prepare()
    value = split_decision(case.trajectory.decision, 1).value
    torch.testing.assert_close(batch.targets["value_target"], batch.targets["advantage"] + value)
    case.trajectory.decision[2:, :, 2] += 1.0  # V(x_t) from here on
    later = case.prepare().targets["advantage"]
    assert torch.equal(later[0], batch.targets["advantage"][0])
    moved = case.trajectory.valid[1] & ~case.trajectory.terminated[1]
    assert torch.allclose((later - batch.targets["advantage"])[1][moved], torch.tensor(GAMMA, dtype=torch.float64))


@by_kind
def test_invalid_and_last_steps_have_no_gradient_and_no_weight(action):
    assert_invalid_steps_do_not_count(Case(action, 1))


def network_gradient(network, algorithm, trajectory, output):
    network.zero_grad()
    with torch.no_grad():
        batch = algorithm.prepare(network, trajectory, int(trajectory.valid.sum()))
    algorithm.loss(output, batch).total.backward()
    return {name: parameter.grad.clone() for name, parameter in network.named_parameters()}


@by_kind
def test_gradient_through_the_unroll_stops_at_each_reset(action):
    network = network_for(action)
    algorithm = A2C(Section(), constant(GAMMA), TRANSFORMS["none"], make_distribution(action))
    trajectory = random_trajectory(action, 2, state_size=network.state_size, dtype=torch.float32)
    assert trajectory.first[1:-1].any(), "resets inside"
    state, steps = trajectory.initial_state, []
    for observation, first in zip(trajectory.observation, trajectory.first, strict=True):
        policy, value, state = network.step(observation, first, state)
        steps.append((policy, value))
    by_steps = Output(*map(torch.stack, zip(*steps, strict=True)))
    unroll, _ = network(trajectory.observation, trajectory.first, trajectory.initial_state)
    slow = network_gradient(network, algorithm, trajectory, by_steps)
    fast = network_gradient(network, algorithm, trajectory, unroll)
    for name, gradient in slow.items():
        torch.testing.assert_close(fast[name], gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("reset", [False, True])
def test_steps_before_a_reset_have_no_gradient(reset):
    network = network_for(DISCRETE)
    algorithm = A2C(Section(), constant(GAMMA), TRANSFORMS["none"], make_distribution(DISCRETE))
    trajectory = random_trajectory(DISCRETE, 2, state_size=network.state_size, ends=0.0, dtype=torch.float32)
    trajectory.valid[:4] = False  # the loss is of steps 4 to 6
    trajectory.first[4] = reset
    trajectory.observation.requires_grad_()
    output, _ = network(trajectory.observation, trajectory.first, trajectory.initial_state)
    network_gradient(network, algorithm, trajectory, output)
    assert bool(trajectory.observation.grad[:4].any()) is not reset
    assert trajectory.observation.grad[4].any()
