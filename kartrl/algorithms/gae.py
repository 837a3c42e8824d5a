"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, equation 16)."""

import torch
from torch import Tensor

from kartrl.algorithms.backward_sum import backward_sum


def generalised_advantage(
    reward: Tensor, discount: Tensor, valid: Tensor, value: Tensor, bootstrap_value: Tensor, gae_lambda: float
) -> Tensor:
    """A_t = delta_t + gamma_t lambda A_{t+1}, with delta_t = r_t + gamma_t V(x_{t+1}) - V(x_t); float [T, B].

    With lambda = 1 it is the n-step return minus the value (A3C, arXiv:1602.01783), with 0 the one-step TD error. An
    invalid step gets 0, and nothing propagates back across it: the step before it bootstraps from its value.

    Args:
        reward: r_t, float [T, B].
        discount: gamma_t, 0 where an episode ended, float [T, B].
        valid: bool [T, B].
        value: V(x_t), float [T, B].
        bootstrap_value: V(x_T), float [B].
    """
    value_next = torch.cat([value[1:], bootstrap_value.unsqueeze(0)])
    delta = (reward + discount * value_next - value) * valid
    return backward_sum(delta, discount * gae_lambda)
