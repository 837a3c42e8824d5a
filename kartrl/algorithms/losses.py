"""Loss terms: weighted sums over steps; weights are float [T, B], 0 for invalid steps."""

import torch
from torch import Tensor


def policy_gradient_loss(log_prob: Tensor, advantage: Tensor, weight: Tensor) -> Tensor:
    """-sum w A log pi(a | x), all [T, B]; no gradient flows through the advantage."""
    return -(weight * advantage.detach() * log_prob).sum()


def value_loss(value: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """0.5 sum w (target - V)^2, all [T, B]; no gradient flows through the target."""
    return 0.5 * (weight * (target.detach() - value) ** 2).sum()


def clipped_policy_loss(ratio: Tensor, advantage: Tensor, clip_range: Tensor, weight: Tensor) -> Tensor:
    """-sum w min(r A, clip(r, 1 - epsilon, 1 + epsilon) A), all [T, B], epsilon a scalar (PPO's equation 7)."""
    clipped = torch.minimum(torch.maximum(ratio, 1 - clip_range), 1 + clip_range)
    return -(weight * torch.minimum(ratio * advantage, clipped * advantage)).sum()


def clipped_value_loss(value: Tensor, target: Tensor, old_value: Tensor, clip_range: float, weight: Tensor) -> Tensor:
    """0.5 sum w max((target - V)^2, (target - V_clip)^2), all [T, B], with V_clip at most `clip_range` from V_old."""
    clipped = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return 0.5 * (weight * torch.maximum((target - value) ** 2, (target - clipped) ** 2)).sum()


def normalised(advantage: Tensor, counted: Tensor) -> Tensor:
    """Advantages [T, B], shifted and scaled so that `counted`, float [any], has mean 0 and standard deviation 1."""
    return (advantage - counted.mean()) / (counted.std(correction=0) + 1e-8)


def entropy_bonus(entropy: Tensor, weight: Tensor) -> Tensor:
    """sum w H, all [T, B]: added to the objective, so subtracted from the loss."""
    return (weight * entropy).sum()
