"""Continuous ACER's loss and gradients against loops over single steps in float64, and the paper's special cases."""

import numpy as np
import pytest
import torch
from trajectories import CONTINUOUS, random_trajectory, said, slow_retrace

from kartrl.algorithms.acer import ACER, gaussian_gradients
from kartrl.algorithms.rewards import make_transform
from kartrl.config import Model
from kartrl.config.algorithms import ACER as Section
from kartrl.config.schedule import constant
from kartrl.envs.observation_spec import plain
from kartrl.models import ActorCritic, Output, make_distribution
from kartrl.models.distributions import DiagonalGaussian
from kartrl.trajectory import Decision, split_decision

GAMMA = 0.875  # exact in float32, in which discounts are
DISTRIBUTION = make_distribution(CONTINUOUS)
T, B, D = 7, 5, CONTINUOUS.columns
FEATURES, SAMPLES = 6, 3


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Case:
    """A batch with ends of episodes, and what the heads say: leaves, but for a real head of advantages."""

    def __init__(self, **settings):
        torch.manual_seed(1)
        section = Section(dueling_samples=SAMPLES, **settings)
        self.algorithm = ACER(section, constant(GAMMA), make_transform("clip", 1.0), DISTRIBUTION)
        self.network = ActorCritic(Model(hidden_size=FEATURES), plain(3), CONTINUOUS, frozenset({"q"}))
        self.trajectory = random_trajectory(CONTINUOUS, state_size=0)
        self.head, self.value = 0.5 * random(2, T + 1, B, 2 * D), random(3, T + 1, B)
        self.features, self.average = random(4, T + 1, B, FEATURES), 0.5 * random(5, T, B, 2 * D)
        self.batch = self.prepared(self.trajectory)
        self.batch.targets["average_policy"] = self.average
        self.leaves = self.head, self.value, self.features
        for leaf in self.leaves:
            leaf.requires_grad_()

    @torch.no_grad()
    def prepared(self, trajectory):
        batch = self.algorithm.prepare(self.network.float(), trajectory, int(trajectory.valid.sum()))
        self.network.double()  # of which the loss uses the head of advantages; encoders are for float32
        return batch

    def loss(self, part=slice(None), batch=None):
        head, value, features = (leaf[:, part] for leaf in self.leaves)
        output = Output(DISTRIBUTION.normalise(head), value, None, features)
        return self.algorithm.loss(output, (batch or self.batch).unrolls(part))

    def gradients(self):
        """Of the three leaves, and of the head of advantages."""
        tensors = (*self.leaves, *self.network.advantage.parameters())
        return [tensor.grad.clone() for tensor in tensors]


class SlowAdvantage:
    """A(x, a), and its gradients by the features and by the weights of the two layers."""

    def __init__(self, network):
        head = network.advantage
        self.hidden, self.bias = head.hidden.weight.detach().numpy(), head.hidden.bias.detach().numpy()
        self.last, self.last_bias = head.last.weight.detach().numpy()[0], head.last.bias.detach().numpy()[0]

    def __call__(self, features, action):
        inputs = np.concatenate([features, np.clip(action, -1, 1)])
        hidden = self.hidden @ inputs + self.bias
        on = self.last * (hidden > 0)
        value = self.last @ np.maximum(hidden, 0) + self.last_bias
        gradients = (self.hidden.T @ on)[: len(features)], np.outer(on, inputs), on, np.maximum(hidden, 0), np.ones(1)
        return value, gradients


@pytest.mark.parametrize(("trust_region", "truncation"), [(1e9, 0.8), (0.05, 0.8), (0.05, 5.0)])
def test_loss_and_its_gradients_equal_loops_over_single_steps(trust_region, truncation):
    case = Case(trust_region=trust_region, truncation=truncation, value_cost=0.7, entropy_cost=constant(0.03))
    loss = case.loss()
    loss.total.backward()

    trajectory, valid = case.trajectory, case.trajectory.valid.numpy()
    acted, average = split_decision(trajectory.decision, D), case.average.numpy()
    head, value, features = (leaf.detach().numpy() for leaf in case.leaves)
    noise = case.batch.targets["noise"].view(T, B, SAMPLES + 1, D).numpy()
    advantage, mu = SlowAdvantage(case.network), acted.parameters.numpy()
    q, drawn = np.zeros((2, T, B)), np.zeros((T, B, D))
    q_gradient, log_rho, log_drawn_rho = {}, np.zeros((T, B)), np.zeros((T, B))
    for t, b in np.ndindex(T, B):
        mean, deviation = head[t, b, :D], np.exp(head[t, b, D:])
        drawn[t, b], *others = mean + deviation * noise[t, b]
        own = [advantage(features[t, b], other) for other in others]
        for number, action in enumerate((acted.action[t, b].numpy(), drawn[t, b])):
            of_action, gradients = advantage(features[t, b], action)
            q[number, t, b] = value[t, b] + of_action - np.mean([each for each, _ in own])
            if number == 0:
                mean_gradients = [np.mean(each, 0) for each in zip(*(each for _, each in own), strict=True)]
                q_gradient[t, b] = [of_a - m for of_a, m in zip(gradients, mean_gradients, strict=True)]
            log_ratio = said(CONTINUOUS, head[t, b], action).log_prob - said(CONTINUOUS, mu[t, b], action).log_prob
            (log_rho, log_drawn_rho)[number][t, b] = log_ratio
    rho, drawn_rho = np.exp(log_rho), np.exp(log_drawn_rho)
    reward = np.clip(trajectory.reward.numpy(), -1, 1)
    steps = reward, trajectory.terminated.numpy(), valid, value[:-1], q[0], value[-1], GAMMA
    target = slow_retrace(np.minimum(1, rho ** (1 / D)), *steps)
    target_opc = slow_retrace(np.ones((T, B)), *steps)

    expected = [np.zeros(leaf.shape) for leaf in case.leaves]
    expected += [np.zeros(parameter.shape) for parameter in case.network.advantage.parameters()]
    terms = dict.fromkeys(loss.terms, 0.0)
    for t, b in np.argwhere(valid):
        of_taken = said(CONTINUOUS, head[t, b], acted.action[t, b].numpy()).log_prob_gradient
        of_drawn = said(CONTINUOUS, head[t, b], drawn[t, b]).log_prob_gradient
        g = min(truncation, rho[t, b]) * (target_opc[t, b] - value[t, b]) * of_taken
        g += max(0.0, 1 - truncation / drawn_rho[t, b]) * (q[1, t, b] - value[t, b]) * of_drawn
        variance, error = np.exp(2 * head[t, b, D:]), head[t, b, :D] - average[t, b, :D]
        k = np.concatenate([error / variance, 1 - (np.exp(2 * average[t, b, D:]) + error**2) / variance])
        changed = k @ g > trust_region
        z = g - max(0.0, (k @ g - trust_region) / (k @ k)) * k
        if changed:
            assert k @ z == pytest.approx(trust_region)
        error = target[t, b] - q[0, t, b]
        value_error = min(1.0, rho[t, b]) * error
        terms["value"] += 0.5 * error**2 + 0.5 * value_error**2
        terms["rho_clipped"] += rho[t, b] > truncation
        terms["trust_region"] += changed
        expected[0][t, b] = -z - 0.03 * np.repeat([0.0, 1.0], D)
        expected[1][t, b] = -0.7 * (error + value_error)
        of_features, *of_weights = q_gradient[t, b]
        expected[2][t, b] = -0.7 * error * of_features
        for place, of_weight in zip(expected[3:], of_weights, strict=True):
            place -= (0.7 * error * of_weight).reshape(place.shape)
    number = valid.sum()
    for name in ("value", "rho_clipped", "trust_region"):
        assert loss.terms[name].item() == pytest.approx(terms[name] / number, abs=1e-9), name
    assert 0 < terms["trust_region"] < number or trust_region > 1
    assert np.any(drawn_rho > truncation) or truncation > 1, "something is corrected"
    for gradient, value_of_it in zip(case.gradients(), expected, strict=True):
        np.testing.assert_allclose(gradient.numpy(), value_of_it / number, atol=1e-9)


def test_parts_of_a_batch_add_up_to_it():
    whole, divided = Case(trust_region=0.05), Case(trust_region=0.05)
    whole.loss().total.backward()
    for begin in range(0, B, 2):
        divided.loss(slice(begin, begin + 2)).total.backward()
    for one, other in zip(divided.gradients(), whole.gradients(), strict=True):
        torch.testing.assert_close(one, other)


def test_trust_region_is_the_same_for_a_doubled_batch():
    one, two = Case(trust_region=0.05), Case(trust_region=0.05)
    twice = torch.arange(B).repeat(2)
    targets = {name: target[:, twice] for name, target in two.batch.targets.items()}
    doubled = two.batch._replace(trajectory=two.trajectory.unrolls(twice), targets=targets, steps=2 * two.batch.steps)
    losses = one.loss(), two.loss(twice, doubled._replace(trajectory=two.trajectory, targets=two.batch.targets))
    for loss in losses:
        loss.total.backward()
    assert 0 < losses[0].terms["trust_region"] < 1
    for name, term in losses[0].terms.items():
        torch.testing.assert_close(losses[1].terms[name], term)
    for gradient, other in zip(one.gradients(), two.gradients(), strict=True):
        torch.testing.assert_close(other, gradient)


def gradients_of(phi, behaviour, action, drawn, advantage, drawn_advantage, average, c):
    decision = Decision(action, DISTRIBUTION.log_prob(behaviour, action), torch.zeros(len(action)), behaviour)
    return gaussian_gradients(DISTRIBUTION, phi, decision, drawn, advantage, drawn_advantage, average, c)


def test_on_policy_loss_is_advantage_gradient_uncorrected():
    phi, advantage, of_drawn = 0.5 * random(0, 9, 2 * D), random(1, 9), random(2, 9)
    action, drawn = (DISTRIBUTION.sample(phi, random(seed, 9, D)) for seed in (3, 4))
    for c in (1.0, 5.0):
        g, k = gradients_of(phi, phi, action, drawn, advantage, of_drawn, phi, c)
        for row in range(9):
            expected = float(advantage[row]) * said(CONTINUOUS, phi[row].numpy(), action[row].numpy()).log_prob_gradient
            np.testing.assert_allclose(g[row].numpy(), expected, atol=1e-12)
        assert torch.all(k.abs() < 1e-12), "nothing is nearer to the average than itself"


def test_truncation_with_correction_leaves_gradient_unbiased():
    grid = torch.linspace(-12, 12, 4001, dtype=torch.float64).unsqueeze(1)
    width = float(grid[1] - grid[0])
    one = DiagonalGaussian(1)
    phi, mu = (torch.tensor(each, dtype=torch.float64).expand(len(grid), 2) for each in ((0.4, -0.3), (-0.5, 0.2)))
    advantage = (grid * 1.3).sin().squeeze(1) + 0.3 * grid.squeeze(1)

    def mean(c):
        """The expectation over a ~ mu and a' ~ pi, by sums over the same fine grid."""
        decision = Decision(grid, one.log_prob(mu, grid), advantage, mu)
        nothing = torch.zeros_like(advantage)
        of_taken, _ = gaussian_gradients(one, phi, decision, grid, advantage, nothing, mu, c)
        of_drawn, _ = gaussian_gradients(one, phi, decision, grid, nothing, advantage, mu, c)
        weights = (one.log_prob(each, grid).exp().unsqueeze(1) * width for each in (mu, phi))
        return sum((weight * g).sum(0) for weight, g in zip(weights, (of_taken, of_drawn), strict=True)), of_drawn

    whole, nothing_left_out = mean(1e9)
    truncated, correction = mean(0.5)
    assert torch.all(nothing_left_out == 0)
    assert correction.abs().max() > 0.1
    torch.testing.assert_close(truncated, whole, atol=1e-8, rtol=0)


def test_the_mean_of_q_over_actions_of_the_policy_is_the_value():
    case, number = Case(), 20_000
    phi = case.head.detach()[0, 0].expand(1, number, -1)
    action = DISTRIBUTION.sample(phi, random(8, 1, number, D))
    decision = torch.cat([action, DISTRIBUTION.log_prob(phi, action).unsqueeze(2), torch.zeros(1, number, 1), phi], 2)
    trajectory = case.trajectory.unrolls(torch.zeros(number, dtype=torch.int64))
    trajectory = trajectory._replace(
        observation=trajectory.observation[:2],
        first=trajectory.first[:2],
        decision=decision,
        reward=torch.zeros(1, number, dtype=torch.float64),
        terminated=torch.ones(1, number, dtype=torch.bool),
        valid=torch.ones(1, number, dtype=torch.bool),
    )
    features = case.features.detach()[0, 0].expand(2, number, -1)
    with torch.no_grad():
        batch = case.prepared(trajectory)
        output = Output(phi.expand(2, -1, -1), torch.full((2, number), 3.25, dtype=torch.float64), None, features)
        q = case.algorithm.loss(output, batch).steps["value"]
    error = q.std() / number**0.5
    assert error > 1e-4, "it varies"
    assert abs(float(q.mean()) - 3.25) < 4 * float(error)


def test_deviations_at_their_bounds_keep_everything_finite():
    case = Case()
    case.network.float()
    scale = torch.cat([torch.full((D,), 3.0), torch.full((D,), 100.0)])  # deviations are clamped to their bounds
    head, value, features = case.leaves
    case.leaves = (head.detach().float() * scale, value.detach().float(), features.detach().float())
    for leaf in case.leaves:
        leaf.requires_grad_()
    trajectory = random_trajectory(CONTINUOUS, state_size=0, dtype=torch.float32)
    average = DISTRIBUTION.normalise(case.average.float() * scale)
    targets = {"average_policy": average, "noise": case.batch.targets["noise"]}
    case.loss(batch=case.batch._replace(trajectory=trajectory, targets=targets)).total.backward()
    assert all(bool(gradient.isfinite().all()) for gradient in case.gradients())
