"""A learning rate that keeps updates about equally large, as rl_games and RSL-RL do for PPO."""

import torch
from torch import Tensor

from kartrl.learning.optimizers import FACTOR

CHANGE = 1.5  # factor by which an update changes the learning rate
TOLERANCE = 2.0  # no change while the KL is within this factor of the target
FARTHEST = 30.0  # largest factor between the learning rate and its schedule


def adapt(optimizer: torch.optim.Optimizer, target: float, divergences: Tensor) -> None:
    """Change the learning rate's factor after an update that moved the policy too far or too little.

    Args:
        optimizer: made with a factor; see `optimizers.make_optimizer`.
        target: mean KL(before || after) of an update.
        divergences: KL of this update as measured by each learner, float32 [learners]; NaN if it had no valid step.
    """
    divergence = float(divergences.nanmean())  # NaN, which changes nothing, if no learner had any
    factor: Tensor = optimizer.param_groups[0][FACTOR]
    if divergence > TOLERANCE * target:
        factor /= CHANGE
    elif divergence < target / TOLERANCE:
        factor *= CHANGE
    factor.clamp_(1 / FARTHEST, FARTHEST)
