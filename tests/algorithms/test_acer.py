"""Discrete ACER's targets, loss and gradients against loops over steps in float64, and the papers' special cases."""

import math

import numpy as np
import pytest
import torch
from trajectories import DISCRETE, pieces, random_ends, random_trajectory, slow_retrace

from kartrl.algorithms.acer import ACER, policy_gradient, within_trust_region
from kartrl.algorithms.algorithm import Batch
from kartrl.algorithms.retrace import retrace
from kartrl.algorithms.rewards import make_transform
from kartrl.config import Model
from kartrl.config.algorithms import ACER as Section
from kartrl.config.schedule import constant
from kartrl.envs.observation_spec import plain
from kartrl.models import Output, make_distribution, make_network
from kartrl.trajectory import split_decision

GAMMA = 0.875  # exact in float32, in which discounts are
DISTRIBUTION = make_distribution(DISCRETE)
T, B, A = 7, 5, DISCRETE.choices


def acer(**settings):
    return ACER(Section(**settings), constant(GAMMA), make_transform("clip", 1.0), DISTRIBUTION)


def log_policy(seed, *leading):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*leading, A, generator=random, dtype=torch.float64).log_softmax(-1)


class Case:
    """A batch with ends of episodes, and what a network that is no network says of it."""

    def __init__(self, seed=0, size=B, **settings):
        self.section, self.algorithm = Section(**settings), acer(**settings)
        self.trajectory = random_trajectory(DISCRETE, seed, size=size)
        self.head = torch.randn(
            T + 1, size, A, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        ).requires_grad_()
        self.q = torch.randn(T + 1, size, A, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
        self.q.requires_grad_()
        self.average = log_policy(seed + 2, T, size)

    def loss(self, part=slice(None)):
        policy, q = DISTRIBUTION.normalise(self.head[:, part]), self.q[:, part]
        output = Output(policy, (policy.exp() * q).sum(-1), q)
        batch = Batch(self.trajectory, {"average_policy": self.average}, int(self.trajectory.valid.sum()))
        return self.algorithm.loss(output, batch.unrolls(part))


def random_steps(seed, ends=0.2):
    random = np.random.default_rng(seed)
    terminated, valid = random_ends(random, T, B, ends)
    trace, reward, value, taken_q = (random.random((T, B)), *random.normal(size=(3, T, B)))
    return trace, reward, terminated, valid, value, taken_q, random.normal(size=B)


def retraced(trace, reward, terminated, valid, value, taken_q, bootstrap):
    tensors = [torch.from_numpy(np.array(array)) for array in (trace, reward, valid, value, taken_q, bootstrap)]
    discount = torch.from_numpy(GAMMA * (~terminated & valid))
    trace, reward, valid, value, taken_q, bootstrap = tensors
    return retrace(trace, reward, discount, valid, value, taken_q, bootstrap).numpy()


@pytest.mark.parametrize("seed", range(5))
def test_retrace_equals_weighted_sum_over_later_steps(seed):
    steps = random_steps(seed)
    np.testing.assert_allclose(retraced(*steps), slow_retrace(*steps, GAMMA), atol=1e-12)


def test_retrace_limits_are_n_step_and_one_step_returns():
    _, reward, terminated, valid, value, _, bootstrap = random_steps(0)
    whole = retraced(np.ones((T, B)), reward, terminated, valid, value, value, bootstrap)
    one = retraced(np.zeros((T, B)), reward, terminated, valid, value, value, bootstrap)
    values = np.vstack([value, bootstrap])
    for b in range(B):
        for first, end, ahead in pieces(terminated[:, b], valid[:, b]):
            after = 0.0 if ahead is None else values[ahead, b]
            for t in reversed(range(first, end)):
                place = t + 1 if t + 1 < end else ahead
                following = 0.0 if place is None else values[place, b]
                assert one[t, b] == pytest.approx(reward[t, b] + GAMMA * following)
                after = reward[t, b] + GAMMA * after
                assert whole[t, b] == pytest.approx(after)
    np.testing.assert_array_equal(whole[~valid], value[~valid])


@pytest.mark.parametrize(("trust_region", "truncation"), [(1e9, 0.8), (0.05, 0.8), (0.05, 10.0)])
def test_loss_and_its_gradients_equal_loops_over_single_steps(trust_region, truncation):
    settings = {
        "trust_region": trust_region,
        "truncation": truncation,
        "value_cost": 0.7,
        "entropy_cost": constant(0.03),
    }
    case = Case(**settings)
    loss = case.loss()
    loss.total.backward()

    trajectory, valid = case.trajectory, case.trajectory.valid.numpy()
    acted = split_decision(trajectory.decision, 1)
    head, q, mu = case.head.detach().numpy(), case.q.detach().numpy(), acted.parameters.exp().numpy()
    f = np.exp(head) / np.exp(head).sum(2, keepdims=True)
    value, taken = (f * q).sum(2), acted.action.numpy()[..., 0].astype(int)
    rows, columns = np.indices((T, B))
    rho = f[:-1] / mu
    taken_rho, taken_q = rho[rows, columns, taken], q[rows, columns, taken]
    reward = np.clip(trajectory.reward.numpy(), -1, 1)
    target = slow_retrace(
        np.minimum(1, taken_rho), reward, trajectory.terminated.numpy(), valid, value[:-1], taken_q, value[-1], GAMMA
    )
    head_gradient, q_gradient = np.zeros(head.shape), np.zeros(q.shape)
    terms = dict.fromkeys(loss.terms, 0.0)
    for t, b in np.argwhere(valid):
        policy, chosen, average = f[t, b], taken[t, b], np.exp(case.average[t, b].numpy())
        g = np.zeros(A)
        g[chosen] += min(truncation, taken_rho[t, b]) / policy[chosen] * (target[t, b] - value[t, b])
        for a in range(A):
            g[a] += max(0.0, 1 - truncation / rho[t, b, a]) * (q[t, b, a] - value[t, b])
        k = -average / policy
        changed = k @ g > trust_region
        z = g - max(0.0, (k @ g - trust_region) / (k @ k)) * k
        if changed:
            assert k @ z == pytest.approx(trust_region)
        jacobian = np.diag(policy) - np.outer(policy, policy)  # of the probabilities with respect to the head
        entropy = -(policy * np.log(policy)).sum()
        entropy_gradient = -policy * (np.log(policy) + entropy)
        error = target[t, b] - taken_q[t, b]
        terms["value"] += 0.5 * error**2
        terms["entropy"] += entropy
        terms["rho_clipped"] += taken_rho[t, b] > truncation
        terms["trust_region"] += changed
        head_gradient[t, b] = -jacobian @ z - 0.03 * entropy_gradient
        q_gradient[t, b, chosen] = -0.7 * error
    steps = valid.sum()
    for name in ("value", "entropy", "rho_clipped", "trust_region"):
        assert loss.terms[name].item() == pytest.approx(terms[name] / steps, abs=1e-9), name
    assert 0 < terms["trust_region"] < steps or trust_region > 1
    assert terms["trust_region"] == 0 or trust_region < 1
    np.testing.assert_allclose(case.head.grad.numpy(), head_gradient / steps, atol=1e-9)
    np.testing.assert_allclose(case.q.grad.numpy(), q_gradient / steps, atol=1e-9)


def test_parts_of_a_batch_add_up_to_it():
    whole, divided = Case(trust_region=0.05), Case(trust_region=0.05)
    whole.loss().total.backward()
    for begin in range(0, B, 2):
        divided.loss(slice(begin, begin + 2)).total.backward()
    torch.testing.assert_close(divided.head.grad, whole.head.grad)
    torch.testing.assert_close(divided.q.grad, whole.q.grad)


def test_trust_region_is_the_same_for_a_doubled_batch():
    one, two = Case(trust_region=0.05), Case(trust_region=0.05)
    twice = torch.arange(B).repeat(2)
    two.trajectory, two.average = two.trajectory.unrolls(twice), two.average[:, twice]
    two.head, two.q = (tensor.detach()[:, twice].requires_grad_() for tensor in (two.head, two.q))
    losses = one.loss(), two.loss()
    for loss in losses:
        loss.total.backward()
    assert 0 < losses[0].terms["trust_region"] < 1
    for name, term in losses[0].terms.items():
        torch.testing.assert_close(losses[1].terms[name], term)
    torch.testing.assert_close(two.head.grad[:, :B] * 2, one.head.grad)
    torch.testing.assert_close(two.q.grad[:, :B] * 2, one.q.grad)


def test_trust_region_projects_gradients_to_its_border_only():
    random = torch.Generator().manual_seed(4)
    g, k = torch.randn(2, 1000, A, generator=random, dtype=torch.float64)
    z, before = within_trust_region(g, k, 0.5), (g * k).sum(1)
    inside = before <= 0.5
    assert 0 < inside.sum() < 1000
    assert torch.equal(z[inside], g[inside])
    torch.testing.assert_close((z * k).sum(1)[~inside], torch.full_like(before[~inside], 0.5), atol=1e-6, rtol=0)
    other = z[~inside] + torch.randn(z[~inside].shape, generator=random, dtype=torch.float64) * 0.1
    within = (other * k[~inside]).sum(1) <= 0.5
    distances = ((vectors - g[~inside]).norm(dim=1)[within] for vectors in (z[~inside], other))
    assert torch.all(next(distances) <= next(distances)), "nothing in it is nearer"


def test_on_policy_loss_is_advantage_gradient_uncorrected():
    probabilities, action = log_policy(0, T, B), torch.randint(A, (T, B), generator=torch.Generator().manual_seed(1))
    advantage, action_advantage = torch.randn(T, B, dtype=torch.float64), torch.randn(T, B, A, dtype=torch.float64)
    for c in (1.0, 10.0, math.inf):
        g = policy_gradient(action, probabilities, probabilities, advantage, action_advantage, c)
        policy = probabilities.exp().requires_grad_()
        (policy.log().gather(2, action.unsqueeze(2)).squeeze(2) * advantage).sum().backward()
        torch.testing.assert_close(g, policy.grad)


def test_truncation_with_correction_leaves_gradient_unbiased():
    f, mu, q = log_policy(1), log_policy(2), torch.randn(A, dtype=torch.float64)
    advantage = q - (f.exp() * q).sum()
    expected = torch.zeros(A, dtype=torch.float64)
    for action in range(A):  # a ~ mu
        g = policy_gradient(torch.tensor(action), f, mu, advantage[action], advantage, 0.5)
        expected += mu[action].exp() * g
    torch.testing.assert_close(expected, advantage, atol=1e-12, rtol=0)  # sum_a f grad log f A = grad sum_a f A


def test_probabilities_that_are_almost_0_keep_everything_finite():
    case = Case()
    case.head = (case.head.detach() * 200).float().requires_grad_()
    case.q, case.average = case.q.detach().float().requires_grad_(), case.average.float()
    decision = torch.cat([case.trajectory.decision[..., :3], log_policy(9, T, B) * 50], 2).float()
    case.trajectory = case.trajectory._replace(decision=decision, reward=case.trajectory.reward.float())
    case.loss().total.backward()
    assert bool(case.head.grad.isfinite().all())
    assert bool(case.q.grad.isfinite().all())


def small_network(core="lstm"):
    torch.manual_seed(11)
    return make_network(Model(hidden_size=8, core=core), plain(3), DISCRETE, frozenset({"q"}))


@pytest.mark.parametrize("core", ["lstm", "none"])
def test_average_network_follows_and_resumes_from_its_state(core):
    network, algorithm = small_network(core), acer(average_decay=0.75)
    trajectory = random_trajectory(DISCRETE, state_size=network.state_size, dtype=torch.float32)
    assert algorithm.state_dict() == {}
    with torch.no_grad():
        before = algorithm.prepare(network, trajectory, 1).targets["average_policy"]
        output = network(trajectory.observation, trajectory.first, trajectory.initial_state)[0]
        torch.testing.assert_close(before, output.policy[:-1], msg="it begins as the network is")
        start = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        for parameter in network.parameters():
            parameter += torch.randn_like(parameter)
    algorithm.after_step(network)
    for name, tensor in algorithm.state_dict().items():
        torch.testing.assert_close(tensor, 0.75 * start[name] + 0.25 * network.state_dict()[name])
    state = {name: tensor.clone() for name, tensor in algorithm.state_dict().items()}
    resumed = acer(average_decay=0.75)
    resumed.load_state_dict(state)
    assert resumed.state_dict().keys() == ACER.state_of(network.state_dict()).keys()
    with torch.no_grad():
        one, other = (each.prepare(network, trajectory, 1).targets["average_policy"] for each in (algorithm, resumed))
    assert torch.equal(one, other)
    assert not torch.equal(one, before)
