"""Retrace (Munos et al. 2016, arXiv:1606.02647), as ACER writes it (Wang et al. 2017, arXiv:1611.01224, equation 5)."""

import torch
from torch import Tensor


def retrace(
    trace: Tensor,
    reward: Tensor,
    discount: Tensor,
    valid: Tensor,
    value: Tensor,
    taken_q: Tensor,
    bootstrap_value: Tensor,
) -> Tensor:
    """Q_ret(x_t, a_t) = r_t + gamma_t (c_{t+1} (Q_ret(x_{t+1}, a_{t+1}) - Q(x_{t+1}, a_{t+1})) + V(x_{t+1})).

    With traces of 1 and Q = V it is the n-step return, with traces of 0 the one-step target r + gamma V. An invalid
    step holds no action but the last observation of a truncated episode: its target is its own value, from which the
    step before it bootstraps, and nothing propagates back across it.

    Args:
        trace: c_t, min(1, pi(a_t | x_t) / mu(a_t | x_t)) in the paper, float [T, B].
        reward: r_t, float [T, B].
        discount: gamma_t, 0 where an episode ended in step t, float [T, B].
        valid: bool [T, B].
        value: V(x_t), float [T, B].
        taken_q: Q(x_t, a_t), float [T, B].
        bootstrap_value: V(x_T), float [B].

    Returns:
        float [T, B], through which no gradient flows.
    """
    c = trace * valid
    ahead = bootstrap_value  # what the step before bootstraps from
    targets: list[Tensor] = []
    for back in range(value.shape[0]):
        t = value.shape[0] - 1 - back
        target = torch.where(valid[t], reward[t] + discount[t] * ahead, value[t])
        ahead = c[t] * (target - taken_q[t]) + value[t]
        targets.append(target)
    targets.reverse()
    return torch.stack(targets).detach()
