"""Terms of losses: sums over steps, each with a weight, float [T, B], which is 0 for invalid steps."""

import torch
from torch import Tensor

from kartrl.models.scripting import scripted


@scripted
def policy_gradient_loss(log_prob: Tensor, advantage: Tensor, weight: Tensor) -> Tensor:
    """-sum w A log pi(a | x), all [T, B]; no gradient flows through the advantage."""
    return -(weight * advantage.detach() * log_prob).sum()


@scripted
def value_loss(value: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """0.5 sum w (target - V)^2, all [T, B]; no gradient flows through the target."""
    return 0.5 * (weight * (target.detach() - value) ** 2).sum()


@scripted
def entropy_bonus(entropy: Tensor, weight: Tensor) -> Tensor:
    """sum w H, all [T, B]: what is added to the objective, so subtracted from the loss."""
    return (weight * entropy).sum()


@scripted
def value_moments(value: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Weighted sums of target - V, its square, the target, and its square: float64 [4]; they add up over parts."""
    error, target, weight = (target - value).detach().double(), target.detach().double(), weight.double()
    return torch.stack([(weight * x).sum() for x in [error, error**2, target, target**2]])


def explained_variance(moments: Tensor) -> float:
    """1 - Var(target - V) / Var(target), from the sum of all parts' moments over means; 0 where targets do not vary."""
    error, error_square, target, target_square = moments.tolist()
    variance = target_square - target**2
    return 1 - (error_square - error**2) / variance if variance > 1e-12 else 0.0
