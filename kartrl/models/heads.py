"""Heads, on the output of encoder and core: for the policy, the value, and the advantage of continuous actions."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from kartrl.config import Model
from kartrl.envs.spec import ActionSpec, Continuous


class FreeDeviation(nn.Linear):
    """A policy's parameters by a linear layer, but log deviations as weights, the same in every state.

    Attributes:
        given: numbers of parameters of each part of the actions that the layer gives.
        free: numbers of its log deviations, which follow these.
    """

    def __init__(self, inputs: int, action: ActionSpec) -> None:
        free = [part.columns if isinstance(part, Continuous) else 0 for part in action.parts]
        given = [part.parameter_size - own for part, own in zip(action.parts, free, strict=True)]
        super().__init__(inputs, sum(given))
        self.given, self.free = given, free
        self.log_deviation = nn.Parameter(torch.zeros(sum(free)))

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., P]."""
        output = functional.linear(x, self.weight, self.bias)
        deviation = self.log_deviation.expand(output.shape[:-1] + self.log_deviation.shape)
        pairs = zip(output.split(self.given, -1), deviation.split(self.free, -1), strict=True)
        return torch.cat([part for pair in pairs for part in pair], -1)


class AdvantageHead(nn.Module):
    """A(x, a) of continuous actions, from features of x and the action: a hidden layer and one output.

    Actions are clipped to their bounds, as the environment does.
    """

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


def policy_head(section: Model, action: ActionSpec, inputs: int) -> nn.Linear:
    """The policy's output layer; at first all actions are about equally likely."""
    if section.deviation == "free" and action.continuous:
        return initialised(FreeDeviation(inputs, action), 0.01)
    return initialised(nn.Linear(inputs, action.parameter_size), 0.01)


def initialised(layer: nn.Linear, gain: float) -> nn.Linear:
    """Initialise a layer: weights orthogonal and scaled by `gain`, biases 0."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
