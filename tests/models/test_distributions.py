"""Distributions against torch's own."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from choosing import mask_around
from gymnasium import spaces
from torch import distributions as peers
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from trajectories import said, slow_kl

from kartrl.envs.masks import restriction
from kartrl.envs.spec import ActionSpec, Binary, Continuous, Discrete
from kartrl.models import make_distribution
from kartrl.models.distributions import Categorical, DiagonalGaussian

CPU = torch.device("cpu")


class Whole(nn.Module):
    """All methods of a distribution."""

    def __init__(self, distribution):
        super().__init__()
        self.distribution = distribution

    def forward(self, head, other, noise):
        of = self.distribution
        p, q = of.normalise(head), of.normalise(other)
        action = of.sample(p, noise)
        return p, action, of.mode(p), of.log_prob(p, action), of.entropy(p), of.kl(p, q)


SPACES = {
    "discrete": spaces.Discrete(5),
    "continuous": spaces.Box(-1, 1, (3,)),
    "multi-discrete": spaces.MultiDiscrete([3, 1, 4, 3]),
    "multi-binary": spaces.MultiBinary(3),
    "mixed": spaces.Dict(
        {
            "box": spaces.Box(-1, 1, (2,)),
            "gear": spaces.Discrete(3, start=1),
            "inner": spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]))),
        }
    ),
}
CASES = {kind: ActionSpec.of(space) for kind, space in SPACES.items()}
by_kind = pytest.mark.parametrize("kind", CASES)


def make(kind):
    return make_distribution(CASES[kind])


class Peer:
    """Torch's own distributions of the parts, one for each choice, for all bits and for all numbers."""

    def __init__(self, kind, parameters):
        self.parts, self.columns = [], []
        for part in CASES[kind].parts:
            own, parameters = parameters.tensor_split([part.parameter_size], -1)
            if isinstance(part, Discrete):
                self.parts += [peers.Categorical(logits=one) for one in own.split(part.sizes, -1)]
                self.columns += [1] * len(part.sizes)
                continue
            if isinstance(part, Binary):
                self.parts.append(peers.Independent(peers.Bernoulli(logits=own), 1))
            else:
                mean, log_deviation = own.chunk(2, -1)
                self.parts.append(peers.Independent(peers.Normal(mean, log_deviation.exp()), 1))
            self.columns.append(part.columns)

    def log_prob(self, action):
        each = action.split(self.columns, -1)
        return sum(
            part.log_prob(own.squeeze(-1) if isinstance(part, peers.Categorical) else own)
            for part, own in zip(self.parts, each, strict=True)
        )

    def entropy(self):
        return sum(part.entropy() for part in self.parts)

    @property
    def mode(self):
        modes = [part.mode.unsqueeze(-1) if isinstance(part, peers.Categorical) else part.mode for part in self.parts]
        return torch.cat(modes, -1)

    def kl(self, other):
        return sum(peers.kl_divergence(*both) for both in zip(self.parts, other.parts, strict=True))


def heads(distribution, *leading, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*leading, distribution.parameter_size, generator=generator, dtype=dtype)


def noise(distribution, batch, seed=1):
    return distribution.noise(batch, CPU, torch.Generator().manual_seed(seed))


@by_kind
def test_every_method_is_torchs(kind):
    distribution = make(kind)
    whole = Whole(distribution)
    head, other = heads(distribution, 7), heads(distribution, 7, seed=2)
    p, action, mode, log_prob, entropy, kl = whole(head, other, noise(distribution, 7))
    expected, against = Peer(kind, p), Peer(kind, distribution.normalise(other))
    torch.testing.assert_close(log_prob, expected.log_prob(action))
    torch.testing.assert_close(entropy, expected.entropy())
    torch.testing.assert_close(kl, expected.kl(against))
    torch.testing.assert_close(mode, expected.mode.float())
    assert action.shape == mode.shape == (7, distribution.action_columns)
    assert {tensor.dtype for tensor in (action, mode, log_prob, entropy, kl)} == {torch.float32}


@by_kind
def test_leading_dimensions_are_free(kind):
    distribution = make(kind)
    p, q = (distribution.normalise(heads(distribution, 4, 3, seed=seed)) for seed in (0, 2))
    action = distribution.sample(p, noise(distribution, 12).unflatten(0, (4, 3)))
    for t in range(4):
        torch.testing.assert_close(distribution.log_prob(p, action)[t], distribution.log_prob(p[t], action[t]))
        torch.testing.assert_close(distribution.entropy(p)[t], distribution.entropy(p[t]))
        torch.testing.assert_close(distribution.kl(p, q)[t], distribution.kl(p[t], q[t]))
        torch.testing.assert_close(distribution.mode(p)[t], distribution.mode(p[t]))


@by_kind
def test_gradients_are_those_of_the_definitions(kind):
    distribution = make(kind)
    head = (0.5 * heads(distribution, 6, dtype=torch.float64)).requires_grad_()  # within the bounds of deviations
    parameters = distribution.normalise(head)
    action = distribution.sample(parameters, noise(distribution, 6))
    assert not action.requires_grad, "no gradient flows through actions"
    log_prob = torch.autograd.grad(distribution.log_prob(parameters, action).sum(), head, retain_graph=True)[0]
    entropy = torch.autograd.grad(distribution.entropy(parameters).sum(), head)[0]
    for row in range(6):
        expected = said(CASES[kind], head[row].detach().numpy(), action[row].double().numpy())
        np.testing.assert_allclose(log_prob[row].numpy(), expected.log_prob_gradient, atol=1e-10)
        np.testing.assert_allclose(entropy[row].numpy(), expected.entropy_gradient, atol=1e-10)


@by_kind
def test_kls_gradient_is_torchs_and_zero_between_equals(kind):
    distribution = make(kind)
    p = distribution.normalise(heads(distribution, 6, dtype=torch.float64))
    head = heads(distribution, 6, seed=2, dtype=torch.float64).requires_grad_()
    ours = torch.autograd.grad(distribution.kl(p, distribution.normalise(head)).sum(), head)[0]
    theirs = Peer(kind, p).kl(Peer(kind, distribution.normalise(head))).sum()
    torch.testing.assert_close(ours, torch.autograd.grad(theirs, head)[0])
    torch.testing.assert_close(distribution.kl(p, p), torch.zeros(6, dtype=torch.float64))
    assert torch.all(distribution.kl(p, distribution.normalise(head)) > 0)


def restrictions(kind, number, seed=0):
    """Random ones of the kind's masks, float32 [number, P]; each allows several actions."""
    env, random = gymnasium.Env(), np.random.default_rng(seed)
    env.action_space = SPACES[kind]
    env.action_space.seed(seed)
    return np.stack([restriction(env, mask_around(SPACES[kind], SPACES[kind].sample(), random)) for _ in range(number)])


def without_illegal(kind, row, action):
    """The legal part of a space, which parameters are of it, and an action's place in it."""
    parts, kept, taken, own, column = [], [], [], 0, 0
    for part in CASES[kind].parts:
        if isinstance(part, Discrete):
            sizes = []
            for size in part.sizes:
                legal = np.flatnonzero(row[own : own + size] == 0)
                sizes.append(len(legal))
                kept += (own + legal).tolist()
                taken.append(int(np.flatnonzero(legal == action[column])[0]))
                own, column = own + size, column + 1
            parts.append(Discrete(tuple(sizes)))
            continue
        free = range(part.parameter_size)
        if isinstance(part, Binary):
            free = np.flatnonzero(row[own : own + part.size] == 0)
            fixed = np.delete(np.arange(part.size), free)
            assert ((action[column + fixed] > 0.5) == (row[own + fixed] > 0)).all()
            parts += [Binary(len(free))] if len(free) else []
            taken += action[column + free].tolist()
        else:
            parts.append(part)
            taken += action[column : column + part.columns].tolist()
        kept += [own + place for place in free]
        own, column = own + part.parameter_size, column + part.columns
    return ActionSpec(tuple(parts)), kept, np.array(taken)


by_masked = pytest.mark.parametrize("kind", [kind for kind in CASES if kind != "continuous"])


@by_masked
def test_restricted_distribution_is_that_of_legal_actions(kind):
    """Exactly: what is illegal adds nothing to any log-probability, entropy, divergence or gradient."""
    distribution, number = make(kind), 40
    rows = torch.from_numpy(restrictions(kind, number)).double()
    assert rows.any()
    head, other = (0.5 * heads(distribution, number, seed=seed, dtype=torch.float64) for seed in (0, 2))
    head.requires_grad_()
    p, q = (distribution.normalise(distribution.restricted(output, rows)) for output in (head, other))
    restored = distribution.normalise(distribution.restricted(other, p.detach()))
    torch.testing.assert_close(restored, q, msg="a policy's own parameters say what was legal")
    _, action, mode, log_prob, entropy, kl = Whole(distribution)(
        distribution.restricted(head, rows), distribution.restricted(other, rows), noise(distribution, number)
    )
    gradients = [torch.autograd.grad(x.sum(), head, retain_graph=True)[0].numpy() for x in (log_prob, entropy, kl)]
    for index, row in enumerate(rows.numpy()):
        spec, kept, taken = without_illegal(kind, row, action[index].double().numpy())
        without_illegal(kind, row, mode[index].detach().double().numpy())  # fails if it is illegal
        assert kept or not any(x[index].item() for x in (log_prob, entropy, kl))
        if not kept:
            continue
        legal, others = head.detach()[index, kept], other[index, kept]
        expected = said(spec, legal.numpy(), taken)
        legal.requires_grad_()
        divergence = slow_kl(spec, legal, others)
        (of_kl,) = torch.autograd.grad(divergence, legal)
        found = [x[index].item() for x in (log_prob, entropy, kl)]
        np.testing.assert_allclose(found, [expected.log_prob, expected.entropy, divergence.item()], atol=1e-9)
        for gradient, of_legal in zip(
            gradients, (expected.log_prob_gradient, expected.entropy_gradient, of_kl.numpy()), strict=True
        ):
            np.testing.assert_allclose(gradient[index, kept], of_legal, atol=1e-9)
            assert not np.delete(gradient[index], kept).any(), "none at all to what is illegal"


@by_masked
def test_restricted_distribution_never_samples_illegal_actions(kind):
    distribution, number = make(kind), 2000
    rows = torch.from_numpy(restrictions(kind, number))
    parameters = distribution.normalise(distribution.restricted(30 * heads(distribution, number), rows))
    drawn = distribution.sample(parameters, noise(distribution, number)), distribution.mode(parameters)
    for action in drawn:
        for row, one in zip(rows.numpy(), action.numpy(), strict=True):
            without_illegal(kind, row, one)
        assert (distribution.log_prob(parameters, action) > -1e9).all()


def test_a_wider_policy_has_more_entropy():
    """A sign that is easily lost: an entropy bonus then narrows the policy."""
    gaussian = DiagonalGaussian(1)
    narrow, wide = (gaussian.entropy(torch.tensor([[0.0, log_deviation]])) for log_deviation in (-1.0, 1.0))
    assert wide.item() - narrow.item() == pytest.approx(2.0)
    parameters = torch.tensor([[0.0, 0.3]], requires_grad=True)
    gaussian.entropy(parameters).sum().backward()
    assert parameters.grad.tolist() == [[0.0, 1.0]]
    uniform, sure = (Categorical(4).normalise(torch.tensor([[x, 0.0, 0.0, 0.0]])) for x in (0.0, 9.0))
    assert Categorical(4).entropy(uniform).item() == pytest.approx(math.log(4))
    assert 0 < Categorical(4).entropy(sure).item() < 0.02


def squashed(size, dtype=torch.float64):
    """A distribution of squashed actions, parameters [50, 2 * size], and torch's own."""
    distribution = DiagonalGaussian(size, squash=True)
    parameters = distribution.normalise(0.5 * heads(distribution, 50, seed=4, dtype=dtype))  # few are near the bounds
    mean, log_deviation = parameters.chunk(2, -1)
    transform = peers.TanhTransform(cache_size=1)  # remembers what it has squashed, and so is exact
    return distribution, parameters, peers.TransformedDistribution(peers.Normal(mean, log_deviation.exp()), [transform])


def test_squashed_actions_have_torchs_density_within_bounds():
    distribution, parameters, expected = squashed(3)
    torch.manual_seed(0)  # atanh of an action very near a bound is not exact
    action = expected.sample()
    torch.testing.assert_close(distribution.log_prob(parameters, action), expected.log_prob(action).sum(-1))
    torch.testing.assert_close(distribution.mode(parameters), parameters[:, :3].tanh())
    drawn = distribution.sample(parameters, noise(distribution, 50).double())
    torch.testing.assert_close(drawn.atanh(), DiagonalGaussian(3).sample(parameters, noise(distribution, 50).double()))
    plain = DiagonalGaussian(3)
    other = parameters.flip(0)
    torch.testing.assert_close(distribution.kl(parameters, other), plain.kl(parameters, other))


def test_squashed_density_is_finite_and_exact_up_to_the_bounds():
    """In float32 a tanh is 1 from 9 on."""
    distribution = DiagonalGaussian(1, squash=True)
    parameters = torch.tensor([[6.0, 1.0]]).expand(1000, 2).clone().requires_grad_()
    action = distribution.sample(parameters, noise(distribution, 1000))
    assert (action == 1).any()
    log_prob = distribution.log_prob(parameters, action)
    log_prob.sum().backward()
    assert log_prob.isfinite().all()
    assert parameters.grad.isfinite().all()


def test_squashed_samples_have_their_density_at_any_mean():
    """The mean of -log p(a) over samples is the entropy; wrong densities make ratios overflow on bang-bang tasks."""
    distribution, number = DiagonalGaussian(1, squash=True), 4000
    for mean in (-80.0, -6.0, 4.5, 8.0, 30.0):
        for log_deviation in (-5.0, -2.0, -0.5):
            parameters = distribution.normalise(torch.tensor([[mean, log_deviation]]).expand(number, 2))
            action = distribution.sample(parameters, noise(distribution, number))
            assert action.mean().item() == pytest.approx(math.tanh(mean), abs=0.001)
            measured = -distribution.log_prob(parameters, action).mean()
            assert measured.item() == pytest.approx(distribution.entropy(parameters)[0].item(), abs=0.1)


@pytest.mark.parametrize(("mean", "gradient", "passes"), [(9.0, 1.0, True), (9.0, -1.0, False), (-9.0, -1.0, True)])
def test_squashed_mean_beyond_a_bound_returns(mean, gradient, passes):
    output = torch.tensor([[mean, 0.0]], requires_grad=True)
    (gradient * DiagonalGaussian(1, squash=True).normalise(output)[0, 0]).backward()
    assert output.grad.tolist() == [[gradient * passes, 0.0]]


def test_squashed_entropy_is_that_of_the_density():
    """By the sum of -p log p over a fine grid, in float64."""
    distribution = DiagonalGaussian(1, squash=True)
    whole = Whole(distribution)
    for mean in (-2.0, 0.0, 0.7):
        for log_deviation, tolerance in ((-3.0, 1e-6), (-1.0, 1e-6), (0.0, 2e-3), (1.0, 0.05)):
            deviation = math.exp(log_deviation)
            drawn = torch.linspace(mean - 12 * deviation, mean + 12 * deviation, 200_001, dtype=torch.float64)
            density = peers.Normal(mean, deviation).log_prob(drawn)
            slope = torch.log1p(-(drawn.tanh() ** 2).clamp(max=1 - 1e-300)).clamp(min=-700)
            slope = torch.where(drawn.abs() > 15, 2 * (math.log(2) - drawn.abs()), slope)
            expected = -torch.trapezoid(density.exp() * (density - slope), drawn).item()
            parameters = torch.tensor([[mean, log_deviation]], dtype=torch.float64)
            entropy = whole(parameters, parameters, torch.zeros(1, 1, dtype=torch.float64))[4]
            assert entropy.item() == pytest.approx(expected, abs=tolerance)


def test_squashed_entropy_is_computed_on_the_device_alone():
    """A CUDA graph cannot hold a copy of Python's numbers to the device."""

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            names.append(function.name())
            return function(*arguments, **(keywords or {}))

    distribution, parameters = DiagonalGaussian(2, squash=True), torch.zeros(3, 4)
    with torch.inference_mode():
        distribution.entropy(parameters)
    names = []
    with Operators():
        torch.tensor([1.0])
    assert "aten::lift_fresh" in names
    names = []
    with Operators():
        distribution.entropy(parameters.requires_grad_()).sum().backward()
    assert "aten::exp" in names
    assert "aten::lift_fresh" not in names


def test_squashed_entropy_pulls_towards_a_middle_width():
    """Its sign: a narrow policy is widened; one that only takes the bounds is narrowed, unlike one that is clipped."""
    for log_deviation, sign in ((-3.0, 1.0), (-1.0, 1.0), (1.5, -1.0)):
        parameters = torch.tensor([[0.0, log_deviation]], requires_grad=True)
        DiagonalGaussian(1, squash=True).entropy(parameters).sum().backward()
        assert parameters.grad[0, 1].item() * sign > 0.1
    assert DiagonalGaussian(1, squash=True).entropy(torch.tensor([[0.0, -0.1]])).item() == pytest.approx(
        math.log(2), abs=0.05
    ), "nearly uniform"


def test_discrete_samples_have_the_policys_frequencies():
    distribution = Categorical(4)
    policy = torch.tensor([0.5, 0.3, 0.15, 0.05])
    number = 100_000
    action = distribution.sample(policy.log().expand(number, 4), noise(distribution, number))
    share = torch.bincount(action[:, 0].long(), minlength=4) / number
    torch.testing.assert_close(share, policy, atol=0.006, rtol=0)


@pytest.mark.parametrize("kind", ["multi-discrete", "multi-binary"])
def test_samples_of_several_have_the_policys_frequencies(kind):
    distribution, number = make(kind), 100_000
    parameters = distribution.normalise(heads(distribution, 1, seed=5))
    action = distribution.sample(parameters.expand(number, -1), noise(distribution, number))
    bits = kind == "multi-binary"
    drawn = action if bits else torch.cat([torch.nn.functional.one_hot(column.long()) for column in action.T], 1)
    torch.testing.assert_close(
        drawn.float().mean(0), (parameters.sigmoid() if bits else parameters.exp())[0], atol=0.006, rtol=0
    )
    assert (torch.corrcoef(action.T[[0, 2]])[0, 1]).abs() < 0.02, "independent of each other"


def test_an_impossible_action_is_never_taken():
    distribution = Categorical(3)
    parameters = distribution.normalise(torch.tensor([0.0, -300.0, 0.0]).expand(50_000, 3))
    assert not (distribution.sample(parameters, noise(distribution, 50_000)) == 1).any()
    assert distribution.entropy(parameters[0]).item() == pytest.approx(math.log(2))


def test_continuous_samples_have_the_policys_moments():
    distribution = DiagonalGaussian(2)
    parameters = torch.tensor([1.5, -2.0, math.log(0.5), math.log(2.0)])
    number = 100_000
    action = distribution.sample(parameters.expand(number, 4), noise(distribution, number))
    torch.testing.assert_close(action.mean(0), torch.tensor([1.5, -2.0]), atol=0.03, rtol=0)
    torch.testing.assert_close(action.std(0), torch.tensor([0.5, 2.0]), atol=0, rtol=0.02)
    assert abs(torch.corrcoef(action.T)[0, 1].item()) < 0.02
    error = (action - parameters[:2]) / parameters[2:].exp()
    torch.testing.assert_close((error**4).mean(0), torch.tensor([3.0, 3.0]), atol=0.15, rtol=0)


def test_deviations_stay_within_bounds():
    distribution = DiagonalGaussian(1)
    parameters = distribution.normalise(torch.tensor([[0.0, -100.0], [0.0, 100.0], [7.0, 0.5]]))
    assert parameters.tolist() == [[0.0, -5.0], [0.0, 2.0], [7.0, 0.5]]


@pytest.mark.parametrize("start", [-5.5, 2.5, 1.0])
@pytest.mark.parametrize("wanted", [-9.0, 0.0, 9.0])
def test_deviation_beyond_a_bound_returns_but_goes_no_further(start, wanted):
    distribution = DiagonalGaussian(1)
    raw = torch.tensor([0.0, start], requires_grad=True)
    optimizer = torch.optim.SGD([raw], 0.05)
    for _ in range(400):
        optimizer.zero_grad()
        used = distribution.normalise(raw)[1]
        ((used - wanted) ** 2).backward()
        optimizer.step()
    used = distribution.normalise(raw)[1].item()
    assert used == pytest.approx(min(max(wanted, -5.0), 2.0), abs=0.01)
    assert min(start, -7.0) <= raw[1].item() <= max(start, 4.0), "it has not run away"


@by_kind
def test_the_same_seed_draws_the_same_noise(kind):
    distribution = make(kind)
    assert torch.equal(noise(distribution, 5), noise(distribution, 5))
    assert not torch.equal(noise(distribution, 5), noise(distribution, 5, seed=2))


def test_the_spec_of_actions_chooses_the_distribution():
    discrete = make_distribution(ActionSpec.of(spaces.Discrete(9)))
    continuous = make_distribution(ActionSpec((Continuous((-1.0,) * 3, (1.0,) * 3),)))
    assert (discrete.parameter_size, discrete.action_columns) == (9, 1)
    assert (continuous.parameter_size, continuous.action_columns) == (6, 3)
    assert make_distribution(ActionSpec((Continuous((0.0,), (1.0,)),)), squash=True).squash
