"""Heads, on the output of encoder and core: for the policy, the value, and the advantage of continuous actions."""

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from kartrl.config import Model
from kartrl.envs.spec import ActionSpec
from kartrl.models.distributions import Distribution


class FreeDeviation(nn.Linear):
    """Means of a Gaussian policy by a linear layer; its log deviations are parameters, the same in every state."""

    def __init__(self, inputs: int, dimensions: int) -> None:
        super().__init__(inputs, dimensions)
        self.log_deviation = nn.Parameter(torch.zeros(dimensions))

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., 2 * dimensions]: means, then logs of deviations."""
        mean = functional.linear(x, self.weight, self.bias)
        return torch.cat([mean, self.log_deviation.expand_as(mean)], -1)


class AdvantageHead(nn.Module):
    """A(x, a) of continuous actions, from features of x and the action: a hidden layer and one output.

    Actions are clipped to their bounds, as the environment does.
    """

    features: Final[int]

    def __init__(self, features: int, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.features = features
        self.hidden = initialised(nn.Linear(features + dimensions, hidden), 2**0.5)
        self.last = initialised(nn.Linear(hidden, 1), 1.0)

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """Features [..., F] and n actions for each, [n, ..., D] -> [n, ...]."""
        of_features, of_action = self.hidden.weight.split([self.features, action.shape[-1]], 1)
        once = functional.linear(features, of_features, self.hidden.bias)  # the same for all n
        return self.last((once + functional.linear(action.clamp(-1.0, 1.0), of_action)).relu()).squeeze(-1)


def policy_head(section: Model, action: ActionSpec, distribution: Distribution, inputs: int) -> nn.Linear:
    """The policy's output layer; at first all actions are about equally likely."""
    if action.kind == "continuous" and section.deviation == "free":
        return initialised(FreeDeviation(inputs, action.size), 0.01)
    return initialised(nn.Linear(inputs, distribution.parameter_size), 0.01)


def initialised(layer: nn.Linear, gain: float) -> nn.Linear:
    """Initialise a layer: weights orthogonal and scaled by `gain`, biases 0."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
