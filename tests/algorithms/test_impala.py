"""IMPALA's loss and its gradient against loops over single steps in float64."""

import numpy as np
import pytest
import torch
from losses import GAMMA, HeadCase, assert_invalid_steps_do_not_count, assert_parts_add_up
from trajectories import ACTIONS, DISCRETE, kind, said, slow_kl

from kartrl.algorithms.impala import Impala
from kartrl.algorithms.vtrace import vtrace
from kartrl.config.algorithms import Impala as Section
from kartrl.trajectory import split_decision

by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)


class Case(HeadCase):
    def __init__(self, action, seed=0, section=None):
        super().__init__(Impala, section or Section(entropy_cost=0.03), action, seed)


def slow(case):
    """The loss of section 4.2, its terms, and the gradients with respect to the head and the value."""
    trajectory, section = case.trajectory, case.section
    decision = split_decision(trajectory.decision, case.action.columns)
    head, value = case.head.detach().numpy(), case.value.detach().numpy()
    length, size = trajectory.reward.shape
    says = [[said(case.action, head[t, b], decision.action[t, b].numpy()) for b in range(size)] for t in range(length)]
    targets = vtrace(
        decision.log_prob,
        torch.tensor([[step.log_prob for step in row] for row in says], dtype=torch.float64),
        trajectory.reward.clamp(-1, 1),
        GAMMA * (~trajectory.terminated & trajectory.valid).double(),
        trajectory.valid,
        torch.from_numpy(value[:-1]),
        torch.from_numpy(value[-1]),
        section.rho_bar,
        section.c_bar,
        section.trace_lambda,
    )
    terms = dict.fromkeys(("policy_gradient", "value", "entropy", "rho_clipped", "behaviour_kl"), 0.0)
    head_gradient, value_gradient = np.zeros_like(head), np.zeros_like(value)
    for t, b in np.argwhere(trajectory.valid.numpy()):
        step = says[t][b]
        ratio = np.exp(step.log_prob - decision.log_prob[t, b].item())
        advantage = min(section.policy_rho_bar, ratio) * targets.advantage[t, b].item()
        error = targets.value_target[t, b].item() - value[t, b]
        terms["policy_gradient"] -= advantage * step.log_prob / case.steps
        terms["value"] += 0.5 * error**2 / case.steps
        terms["entropy"] += step.entropy / case.steps
        terms["rho_clipped"] += (ratio > section.rho_bar) / case.steps
        terms["behaviour_kl"] += (
            slow_kl(case.action, decision.parameters[t, b], case.head[t, b].detach()).item() / case.steps
        )
        head_gradient[t, b] = -advantage * step.log_prob_gradient - section.entropy_cost.at(0) * step.entropy_gradient
        value_gradient[t, b] = -section.value_cost * error
    return terms, head_gradient / case.steps, value_gradient / case.steps


@by_kind
@pytest.mark.parametrize("bars", [(1.0, 1.0, 1.0), (0.7, 0.4, 0.5), (3.0, 1.5, 2.0)])
def test_loss_and_its_gradient_equal_loops_over_single_steps(action, bars):
    case = Case(
        action,
        section=Section(rho_bar=bars[0], c_bar=bars[1], policy_rho_bar=bars[2], value_cost=0.7, entropy_cost=0.03),
    )
    loss = case.loss()
    loss.total.backward()
    terms, head_gradient, value_gradient = slow(case)
    assert {name: term.item() for name, term in loss.terms.items()} == pytest.approx(terms)
    assert loss.total.item() == pytest.approx(terms["policy_gradient"] + 0.7 * terms["value"] - 0.03 * terms["entropy"])
    np.testing.assert_allclose(case.head.grad.numpy(), head_gradient, atol=1e-12)
    np.testing.assert_allclose(case.value.grad.numpy(), value_gradient, atol=1e-12)


@by_kind
def test_invalid_and_last_steps_have_no_gradient_and_no_weight(action):
    assert_invalid_steps_do_not_count(Case(action, 1))


@by_kind
def test_the_parts_of_a_batch_add_up_to_the_whole(action):
    assert_parts_add_up(Case(action, 4), Case(action, 4))


@by_kind
def test_costs_weigh_their_terms(action):
    loss = Case(action, 2, Section(value_cost=3.0, entropy_cost=0.7)).loss()
    terms = {name: term.item() for name, term in loss.terms.items()}
    assert loss.total.item() == pytest.approx(terms["policy_gradient"] + 3.0 * terms["value"] - 0.7 * terms["entropy"])


def test_a_higher_entropy_cost_flattens_the_policy():
    case = Case(DISCRETE, 2, Section(entropy_cost=1e6))
    entropy = case.loss().terms["entropy"].item()
    case.loss().total.backward()
    with torch.no_grad():
        case.head -= 1e-5 * case.head.grad
    assert entropy < case.loss().terms["entropy"].item() <= np.log(4)
