"""Action distributions: each encloses its arithmetic, has no weights, and can be scripted.

A distribution is described by `parameters`, float32 [..., parameter_size], which `normalise` makes of a policy head's
output; actions are float32 [..., action_columns]. Leading dimensions are free; results without columns have only those.
"""

import math
from typing import Final, Protocol

import torch
from torch import Tensor, nn

from kartrl.envs.spec import ActionSpec


class Distribution(Protocol):
    """What networks and algorithms need of a distribution."""

    @property
    def parameter_size(self) -> int: ...

    @property
    def action_columns(self) -> int: ...

    def noise(self, batch: int, device: torch.device, generator: torch.Generator) -> Tensor:
        """What `sample` needs for this many actions, float32 [batch, any]; all randomness is here."""

    def normalise(self, output: Tensor) -> Tensor:
        """The parameters that a policy head's output [..., parameter_size] stands for."""

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Actions [..., action_columns]; no gradient flows through them."""

    def mode(self, parameters: Tensor) -> Tensor:
        """The likeliest actions [..., action_columns]."""

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        """Log-probabilities, or log-densities, of actions [..., action_columns]: [...]."""

    def entropy(self, parameters: Tensor) -> Tensor:
        """Entropies [...], of continuous actions differential ones."""

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """KL(p || q), of parameters p and q: [...]."""


class Categorical(nn.Module):
    """One of `actions` discrete actions; its parameters are their log-probabilities."""

    parameter_size: Final[int]
    action_columns: Final[int]

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.parameter_size, self.action_columns = actions, 1

    def noise(self, batch: int, device: torch.device, generator: torch.Generator) -> Tensor:
        """See `Distribution`: draws from the exponential distribution of rate 1."""
        return torch.empty(batch, self.parameter_size, device=device).exponential_(generator=generator)

    def normalise(self, output: Tensor) -> Tensor:
        """See `Distribution`: the outputs are logits."""
        return output.log_softmax(-1)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """See `Distribution`: the action of the largest pi(a) / noise(a) is a sample of the policy."""
        return (parameters - noise.log()).argmax(-1, keepdim=True).to(torch.float32)

    def mode(self, parameters: Tensor) -> Tensor:
        """See `Distribution`."""
        return parameters.argmax(-1, keepdim=True).to(torch.float32)

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        """See `Distribution`."""
        return parameters.gather(-1, action.to(torch.int64)).squeeze(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """See `Distribution`."""
        return -(parameters.exp() * parameters).sum(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """See `Distribution`."""
        return (p.exp() * (p - q)).sum(-1)


class DiagonalGaussian(nn.Module):
    """Independent normal distributions of `size` dimensions; parameters are the means, then the logs of the deviations.

    Actions are not clipped here: an environment clips what it is given, and the log-density is of the unclipped action.
    """

    parameter_size: Final[int]
    action_columns: Final[int]
    LOG_DEVIATION: Final[tuple[float, float]]  # bounds

    def __init__(self, size: int) -> None:
        super().__init__()
        self.parameter_size, self.action_columns = 2 * size, size
        self.LOG_DEVIATION = (-5.0, 2.0)

    def noise(self, batch: int, device: torch.device, generator: torch.Generator) -> Tensor:
        """See `Distribution`: standard normal."""
        return torch.randn(batch, self.action_columns, device=device, generator=generator)

    def normalise(self, output: Tensor) -> Tensor:
        """See `Distribution`: the logs of the deviations are clamped."""
        mean, log_deviation = output.chunk(2, -1)
        return torch.cat([mean, log_deviation.clamp(self.LOG_DEVIATION[0], self.LOG_DEVIATION[1])], -1)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """See `Distribution`."""
        mean, log_deviation = parameters.chunk(2, -1)
        return (mean + log_deviation.exp() * noise).detach()

    def mode(self, parameters: Tensor) -> Tensor:
        """See `Distribution`."""
        return parameters.chunk(2, -1)[0]

    def log_prob(self, parameters: Tensor, action: Tensor) -> Tensor:
        """See `Distribution`."""
        mean, log_deviation = parameters.chunk(2, -1)
        error = (action - mean) * (-log_deviation).exp()
        return (-0.5 * error**2 - log_deviation - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """See `Distribution`."""
        return (parameters.chunk(2, -1)[1] + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """See `Distribution`."""
        mean, log_deviation = p.chunk(2, -1)
        other_mean, other_log_deviation = q.chunk(2, -1)
        square = (2 * (log_deviation - other_log_deviation)).exp()
        error = (mean - other_mean) * (-other_log_deviation).exp()
        return (other_log_deviation - log_deviation + 0.5 * (square + error**2 - 1)).sum(-1)


def make_distribution(action: ActionSpec) -> Distribution:
    """The distribution of policies over these actions."""
    return Categorical(action.size) if action.kind == "discrete" else DiagonalGaussian(action.size)
