"""IMPALA's loss and its gradient against loops over single steps in float64."""

import numpy as np
import pytest
import torch
from trajectories import ACTIONS, DISCRETE, kind, random_trajectory, said, slow_kl

from kartrl.algorithms.algorithm import Batch
from kartrl.algorithms.impala import Impala
from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.algorithms.vtrace import vtrace
from kartrl.config.algorithms import Impala as Section
from kartrl.config.schedule import constant
from kartrl.models import Output, make_distribution
from kartrl.trajectory import split_decision

GAMMA = 0.875  # exact in float32, in which discounts are
by_kind = pytest.mark.parametrize("action", ACTIONS, ids=kind)


class Case:
    """A batch, and what a network that is no network says of it: outputs of the heads, with gradients."""

    def __init__(self, action, seed=0, section=None, **shape):
        self.action = action
        self.section = section or Section(entropy_cost=0.03)
        self.distribution = make_distribution(action)
        self.algorithm = Impala(self.section, constant(GAMMA), TRANSFORMS["clip"], self.distribution)
        self.trajectory = random_trajectory(action, seed, **shape)
        self.steps = int(self.trajectory.valid.sum())
        torch.manual_seed(seed)
        steps, size = self.trajectory.first.shape
        self.head = torch.randn(steps, size, self.distribution.parameter_size, dtype=torch.float64) * 0.5
        self.value = torch.randn(steps, size, dtype=torch.float64)
        self.head.requires_grad_()
        self.value.requires_grad_()

    def loss(self, part=slice(None)):
        output = Output(self.distribution.normalise(self.head[:, part]), self.value[:, part])
        batch = self.algorithm.prepare(None, self.trajectory, self.steps)
        assert isinstance(batch, Batch)
        return self.algorithm.loss(output, batch.unrolls(part))


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
    case = Case(action, 1)
    invalid = ~case.trajectory.valid
    assert invalid.any()
    loss = case.loss()
    loss.total.backward()
    assert torch.all(case.head.grad[:-1][invalid] == 0)
    assert torch.all(case.value.grad[:-1][invalid] == 0)
    assert torch.all(case.head.grad[-1] == 0)
    assert torch.all(case.value.grad[-1] == 0)
    case.trajectory.reward[invalid] = 100.0
    case.trajectory.terminated[invalid] = True
    torch.testing.assert_close(case.loss().total, loss.total, rtol=0, atol=0)


@by_kind
def test_the_parts_of_a_batch_add_up_to_the_whole(action):
    whole, parts = Case(action, 4), Case(action, 4)
    loss = whole.loss()
    loss.total.backward()
    losses = [parts.loss(part) for part in (slice(0, 2), slice(2, 3), slice(3, 5))]
    for part in losses:
        part.total.backward()
    torch.testing.assert_close(sum(part.total for part in losses), loss.total)
    for name, term in loss.terms.items():
        torch.testing.assert_close(sum(part.terms[name] for part in losses), term)
    torch.testing.assert_close(parts.head.grad, whole.head.grad)
    torch.testing.assert_close(parts.value.grad, whole.value.grad)


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
