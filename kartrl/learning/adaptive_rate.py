"""A learning rate that keeps updates about equally large, as rl_games and RSL-RL have it for PPO."""

import torch
from torch import Tensor

from kartrl.learning.optimizers import FACTOR

CHANGE = 1.5  # of the learning rate at an update
TOLERANCE = 2.0  # how many times larger or smaller than the target a KL may be without a change
FARTHEST = 30.0  # times larger or smaller than the schedule


def adapt(optimizer: torch.optim.Optimizer, target: float, divergences: Tensor) -> None:
    """Change the learning rate's factor after an update that moved the policy too far, or too little.

    Args:
        optimizer: made with a factor; see `optimizers.make_optimizer`.
        target: mean KL(before || after) of an update.
        divergences: of this update, as each learner has measured it, float32 [learners].
    """
    divergence = float(divergences.mean())
    factor: Tensor = optimizer.param_groups[0][FACTOR]
    if divergence > TOLERANCE * target:
        factor /= CHANGE
    elif divergence < target / TOLERANCE:
        factor *= CHANGE
    factor.clamp_(1 / FARTHEST, FARTHEST)
