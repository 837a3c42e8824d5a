"""Action distributions: each contains its arithmetic, and has no weights.

A distribution is described by `parameters`, float32 [..., parameter_size], which `normalise` computes from a policy
head's output; actions are float32 [..., action_columns]. Leading dimensions are arbitrary; log-probabilities, entropies
and divergences have only those.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from kartrl.envs.masks import ILLEGAL
from kartrl.envs.spec import ActionSpec, Binary, Continuous, Discrete, Part

_nodes, _weights = np.polynomial.hermite_e.hermegauss(32)
QUADRATURE = _nodes.tolist(), (_weights / _weights.sum()).tolist()
"""Gauss-Hermite nodes and weights, for expectations under a standard normal."""


class Distribution(Protocol):
    """The interface of a distribution for networks and algorithms."""

    @property
    def parameter_size(self) -> int: ...

    @property
    def action_columns(self) -> int: ...

    @property
    def noise_size(self) -> int: ...

    @property
    def noises(self) -> tuple[tuple[str, int], ...]:
        """Columns of each kind of noise, by the names of NumPy's generators."""

    def noise(self, batch: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """Noise for `sample` of this many actions, float32 [batch, noise_size]; by default from torch's generator."""

    def normalise(self, output: Tensor) -> Tensor:
        """The parameters for a policy head's output [..., parameter_size]."""

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Actions [..., action_columns]; no gradient flows through them."""

    def mode(self, parameters: Tensor) -> Tensor:
        """The most likely actions [..., action_columns]."""

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        """Log-probabilities or log-densities of actions [..., action_columns]: [...]."""

    def entropy(self, parameters: Tensor) -> Tensor:
        """Entropies [...]; differential entropies for continuous actions."""

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """KL(p || q) for parameters p and q: [...]."""

    def restricted(self, output: Tensor, restriction: Tensor) -> Tensor:
        """A policy head's output [..., parameter_size] so that only legal actions have a probability.

        No gradient flows to the outputs of others.

        Args:
            restriction: [..., parameter_size], as in `kartrl.envs.masks`; or parameters of such an output.
        """


class Categorical(nn.Module):
    """Independent choices, of one of so many actions each; parameters are the actions' log-probabilities."""

    ILLEGAL = 0.5 * ILLEGAL  # a log-probability that only an illegal action has

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.parameter_size = self.noise_size = sum(sizes)
        self.action_columns = len(sizes)
        self.noises = (("standard_exponential", self.noise_size),)

    def noise(self, batch: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """See `Distribution`: exponential, of rate 1."""
        return torch.empty(batch, self.noise_size, device=device).exponential_(generator=generator)

    def normalise(self, output: Tensor) -> Tensor:
        """See `Distribution`: the outputs are logits."""
        if self.action_columns == 1:
            return output.log_softmax(-1)
        return torch.cat([part.log_softmax(-1) for part in output.split(self.sizes, -1)], -1)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """See `Distribution`: the action with the largest pi(a) / noise(a) is a sample from the policy."""
        return self.mode(parameters - noise.log())

    def mode(self, parameters: Tensor) -> Tensor:
        if self.action_columns == 1:
            return parameters.argmax(-1, keepdim=True).to(torch.float32)
        each = parameters.split(self.sizes, -1)
        return torch.cat([part.argmax(-1, keepdim=True) for part in each], -1).to(torch.float32)

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        index = action.to(torch.int64)
        if self.action_columns == 1:
            return parameters.gather(-1, index).squeeze(-1)
        # not by a tensor of offsets, which would be copied to the device: a CUDA graph cannot hold that
        each, indices = parameters.split(self.sizes, -1), index.split(1, -1)
        return torch.cat([part.gather(-1, indices[i]) for i, part in enumerate(each)], -1).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        return -(parameters.exp() * parameters).sum(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        return (p.exp() * (p - q)).sum(-1)

    def restricted(self, output: Tensor, restriction: Tensor) -> Tensor:
        return torch.where(restriction <= self.ILLEGAL, restriction, output)


class Bernoulli(nn.Module):
    """Independent bits, 0 or 1; parameters are the logits of ones."""

    ILLEGAL = 0.5 * ILLEGAL  # a logit that only a bit that must be 0 has

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.parameter_size = self.action_columns = self.noise_size = bits
        self.noises = (("random", bits),)

    def noise(self, batch: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """See `Distribution`: uniform, 0 to 1."""
        return torch.rand(batch, self.noise_size, device=device, generator=generator)

    def normalise(self, output: Tensor) -> Tensor:
        return output

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        return (noise < parameters.sigmoid()).to(torch.float32)

    def mode(self, parameters: Tensor) -> Tensor:
        return (parameters > 0).to(torch.float32)

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        return functional.logsigmoid((2 * action - 1) * parameters).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        of_ones = parameters.sigmoid() * functional.logsigmoid(parameters)
        return -(of_ones + (-parameters).sigmoid() * functional.logsigmoid(-parameters)).sum(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        of_ones = p.sigmoid() * (functional.logsigmoid(p) - functional.logsigmoid(q))
        return (of_ones + (-p).sigmoid() * (functional.logsigmoid(-p) - functional.logsigmoid(-q))).sum(-1)

    def restricted(self, output: Tensor, restriction: Tensor) -> Tensor:
        return torch.where(restriction.abs() >= -self.ILLEGAL, restriction, output)


class DiagonalGaussian(nn.Module):
    """Independent normal distributions in `size` dimensions; parameters are means, then log standard deviations.

    Actions are not clipped here but by the environment; the log-density is that of the unclipped action.

    Args:
        squash: actions are the tanh of the samples, so that none needs clipping; densities are those of the squashed
            action (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).
    """

    LOG_DEVIATION = -5.0, 2.0  # bounds
    SQUASHED_MEAN = -5.0, 5.0  # bounds too, before the tanh, which is 0.9999 there
    LARGEST = 1 - 2.0**-20  # squashed actions beyond it, due to rounding, are clamped to it

    def __init__(self, size: int, squash: bool = False) -> None:
        super().__init__()
        self.parameter_size, self.squash = 2 * size, squash
        self.action_columns = self.noise_size = size
        self.noises = (("standard_normal", size),)

    def noise(self, batch: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """See `Distribution`: standard normal."""
        return torch.randn(batch, self.noise_size, device=device, generator=generator)

    def normalise(self, output: Tensor) -> Tensor:
        """See `Distribution`: log deviations are clamped; gradients that lead back between the bounds pass.

        So are the means of squashed actions: where the tanh is 1, actions do not tell which samples they were.
        """
        mean, log_deviation = output.chunk(2, -1)
        if self.squash:
            mean = _Clamp.apply(mean, *self.SQUASHED_MEAN)
        return torch.cat([mean, _Clamp.apply(log_deviation, *self.LOG_DEVIATION)], -1)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        mean, log_deviation = parameters.chunk(2, -1)
        drawn = (mean + log_deviation.exp() * noise).detach()
        return drawn.tanh() if self.squash else drawn

    def mode(self, parameters: Tensor) -> Tensor:
        """See `Distribution`; for squashed actions the median of each, as the density may be largest at the bounds."""
        mean = parameters.chunk(2, -1)[0]
        return mean.tanh() if self.squash else mean

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        mean, log_deviation = parameters.chunk(2, -1)
        drawn = action.clamp(-self.LARGEST, self.LARGEST).atanh() if self.squash else action
        error = (drawn - mean) * (-log_deviation).exp()
        log_density = -0.5 * error**2 - log_deviation - 0.5 * math.log(2 * math.pi)
        if self.squash:
            log_density = log_density - log_slope_of_tanh(drawn)
        return log_density.sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """See `Distribution`. It grows with the deviation, and is negative if that is small.

        For squashed actions it is H(normal) + E[log(1 - tanh(x)^2)], the expectation by quadrature with 32 nodes: it
        has a maximum, near that of uniform actions, beyond which a larger deviation reduces it.
        """
        mean, log_deviation = parameters.chunk(2, -1)
        entropy = log_deviation + 0.5 * math.log(2 * math.pi * math.e)
        if self.squash:
            nodes, weights = _quadrature(parameters.device, parameters.dtype)
            drawn = mean.unsqueeze(-1) + log_deviation.exp().unsqueeze(-1) * nodes
            entropy = entropy + (weights * log_slope_of_tanh(drawn)).sum(-1)
        return entropy.sum(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """See `Distribution`; squashing does not change it."""
        mean, log_deviation = p.chunk(2, -1)
        other_mean, other_log_deviation = q.chunk(2, -1)
        square = (2 * (log_deviation - other_log_deviation)).exp()
        error = (mean - other_mean) * (-other_log_deviation).exp()
        return (other_log_deviation - log_deviation + 0.5 * (square + error**2 - 1)).sum(-1)

    def restricted(self, output: Tensor, restriction: Tensor) -> Tensor:
        """See `Distribution`: all actions are legal."""
        return output


@functools.cache  # not for each loss, whose CUDA graph cannot hold a copy to the device
@torch.inference_mode(False)
def _quadrature(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Nodes and weights, [32] each."""
    nodes, weights = (torch.tensor(each, device=device, dtype=dtype) for each in QUADRATURE)
    return nodes, weights


class _Clamp(torch.autograd.Function):
    """`Tensor.clamp`, but with no gradient only where descent would lead further out.

    With none beyond a bound, a deviation that a large step has brought there would stay there for ever.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (x,), (low, high), (gradient,) = ctx.saved_tensors, ctx.bounds, gradients
        inwards = torch.where(x > high, gradient.clamp(min=0), gradient)
        return torch.where(x < low, gradient.clamp(max=0), inwards), None, None


def log_slope_of_tanh(x: Tensor) -> Tensor:
    """log(1 - tanh(x)^2), also where 1 - tanh(x)^2 underflows."""
    return 2 * (math.log(2) - x - functional.softplus(-2 * x))


class Product(nn.Module):
    """Distributions of several kinds, independent of each other; columns and parameters follow one another."""

    def __init__(self, parts: Sequence[Any]) -> None:
        super().__init__()
        self.parts: Any = nn.ModuleList(parts)
        self.parameters_of = [part.parameter_size for part in parts]
        self.columns_of = [part.action_columns for part in parts]
        self.noise_of = [part.noise_size for part in parts]
        self.parameter_size, self.action_columns = sum(self.parameters_of), sum(self.columns_of)
        self.noise_size = sum(self.noise_of)
        self.noises = tuple(noise for part in parts for noise in part.noises)

    def noise(self, batch: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        return torch.cat([part.noise(batch, device, generator) for part in self.parts], -1)

    def normalise(self, output: Tensor) -> Tensor:
        each = output.split(self.parameters_of, -1)
        return torch.cat([part.normalise(each[i]) for i, part in enumerate(self.parts)], -1)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        each, noises = parameters.split(self.parameters_of, -1), noise.split(self.noise_of, -1)
        return torch.cat([part.sample(each[i], noises[i]) for i, part in enumerate(self.parts)], -1)

    def mode(self, parameters: Tensor) -> Tensor:
        each = parameters.split(self.parameters_of, -1)
        return torch.cat([part.mode(each[i]) for i, part in enumerate(self.parts)], -1)

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        each, actions = parameters.split(self.parameters_of, -1), action.split(self.columns_of, -1)
        return torch.stack([part.log_prob(each[i], actions[i]) for i, part in enumerate(self.parts)]).sum(0)

    def entropy(self, parameters: Tensor) -> Tensor:
        each = parameters.split(self.parameters_of, -1)
        return torch.stack([part.entropy(each[i]) for i, part in enumerate(self.parts)]).sum(0)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        of_p, of_q = p.split(self.parameters_of, -1), q.split(self.parameters_of, -1)
        return torch.stack([part.kl(of_p[i], of_q[i]) for i, part in enumerate(self.parts)]).sum(0)

    def restricted(self, output: Tensor, restriction: Tensor) -> Tensor:
        each, restrictions = output.split(self.parameters_of, -1), restriction.split(self.parameters_of, -1)
        return torch.cat([part.restricted(each[i], restrictions[i]) for i, part in enumerate(self.parts)], -1)


def make_distribution(action: ActionSpec, squash: bool = False) -> Distribution:
    """Make the distribution for these actions; `squash` is `model.squash_actions`, which does not affect noise."""
    parts = [_of(part, squash) for part in action.parts]
    return parts[0] if len(parts) == 1 else Product(parts)


def _of(part: Part, squash: bool) -> Distribution:
    if isinstance(part, Discrete):
        return Categorical(*part.sizes)
    if isinstance(part, Binary):
        return Bernoulli(part.size)
    assert isinstance(part, Continuous)
    return DiagonalGaussian(part.columns, squash)
