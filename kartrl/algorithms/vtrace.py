"""V-trace (Espeholt et al. 2018, arXiv:1802.01561, section 4.1) with episode ends inside the unroll."""

from typing import NamedTuple

import torch
from torch import Tensor

from kartrl.algorithms.backward_sum import backward_sum


class VTrace(NamedTuple):
    """V-trace targets of an unroll; no gradient flows through them."""

    value_target: Tensor  # v_s, float32 [T, B]
    advantage: Tensor  # r_s + gamma_s v_{s+1} - V(x_s), without the importance weight of step s, float32 [T, B]


def vtrace(
    behaviour_log_prob: Tensor,
    target_log_prob: Tensor,
    reward: Tensor,
    discount: Tensor,
    valid: Tensor,
    value: Tensor,
    bootstrap_value: Tensor,
    rho_bar: float,
    c_bar: float,
    trace_lambda: float,
    trusted: Tensor | None = None,
    masks_differences: bool = False,
) -> VTrace:
    """Value targets, and advantages for the policy gradient, by equation 1 in its recursive form (remark 1).

    With lambda (remark 2) traces are lambda min(c_bar, ratio), and the advantage looks ahead to the mixture
    lambda v_{s+1} + (1 - lambda) V(x_{s+1}), so that on-policy it is GAE's (arXiv:1506.02438).

    An invalid step holds no action but the last observation of a truncated episode. Its target is its own value, from
    which the step before it bootstraps, its advantage is 0, and nothing propagates back across it.

    Args:
        behaviour_log_prob: log mu(a_s | x_s) of the policy that acted, float [T, B].
        target_log_prob: log pi(a_s | x_s) of the learner's policy, float [T, B].
        reward: r_s, float [T, B].
        discount: gamma_s, 0 where an episode ended in step s, float [T, B].
        valid: bool [T, B].
        value: V(x_s), float [T, B].
        bootstrap_value: V(x_T), float [B].
        rho_bar: truncation of the importance weights in the temporal differences.
        c_bar: truncation of the importance weights in the trace.
        trace_lambda: lambda of the traces; 1 in the paper.
        trusted: factors of the traces, float [T, B], see `laser.Relevance`; None means 1.
        masks_differences: whether `trusted` multiplies the temporal differences too.
    """
    ratio = torch.exp(target_log_prob - behaviour_log_prob) * valid
    rho = ratio.clamp(max=rho_bar)
    c = trace_lambda * ratio.clamp(max=c_bar)
    if trusted is not None:
        c = c * trusted
        if masks_differences:
            rho = rho * trusted
    value_next = torch.cat([value[1:], bootstrap_value.unsqueeze(0)])
    delta = rho * (reward + discount * value_next - value)
    correction = backward_sum(delta, discount * c)  # v_s - V(x_s)
    value_target = value + correction
    ahead = value_next + trace_lambda * torch.cat([correction[1:], torch.zeros_like(correction[:1])])
    advantage = (reward + discount * ahead - value) * valid
    return VTrace(value_target.detach(), advantage.detach())
