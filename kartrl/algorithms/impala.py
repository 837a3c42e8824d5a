"""The loss of IMPALA (arXiv:1802.01561, section 4.2): policy gradient, value and entropy terms."""

from typing import NamedTuple

from torch import Tensor

from kartrl.algorithms.vtrace import vtrace
from kartrl.models.scripting import scripted


class Loss(NamedTuple):
    """The loss and what is worth watching about it; all float32 scalars, means over the valid steps."""

    total: Tensor
    policy_gradient: Tensor
    baseline: Tensor
    entropy: Tensor
    explained_variance: Tensor  # 1 - Var(v_s - V) / Var(v_s)
    importance_ratio: Tensor  # pi / mu of the actions taken; 1 on-policy


def _variance(x: Tensor, weight: Tensor) -> Tensor:
    mean = (weight * x).sum()
    return (weight * (x - mean) ** 2).sum()


@scripted
def impala_loss(
    logits: Tensor,
    baseline: Tensor,
    action: Tensor,
    behaviour_log_prob: Tensor,
    reward: Tensor,
    discount: Tensor,
    valid: Tensor,
    steps: float,
    *,
    rho_bar: float,
    c_bar: float,
    baseline_cost: float,
    entropy_cost: float,
) -> Loss:
    """The mean loss over the valid steps of a batch of unrolls (the paper sums; a mean keeps the step size independent of T and B).

    Args:
        logits: of the learner's policy, float32 [T + 1, B, A]; the last step only bootstraps.
        baseline: V of the learner, float32 [T + 1, B].
        action: int64 [T, B].
        behaviour_log_prob: float32 [T, B].
        reward: float32 [T, B].
        discount: float32 [T, B], 0 where an episode terminated.
        valid: bool [T, B], False where the step only carries the last observation of an episode.
        steps: valid steps that the mean is over: those of this batch, or of a larger one of which it is a part.
    """
    assert [logits.ndim, baseline.ndim, action.ndim] == [3, 2, 2], "expected [T + 1, B, A], [T + 1, B] and [T, B]"
    log_policy = logits[:-1].log_softmax(2)
    log_prob = log_policy.gather(2, action.unsqueeze(2)).squeeze(2)
    value = baseline[:-1]
    targets = vtrace(
        behaviour_log_prob,
        log_prob.detach(),
        reward,
        discount,
        valid,
        value.detach(),
        baseline[-1].detach(),
        rho_bar,
        c_bar,
    )
    weight = valid.to(baseline.dtype) / steps
    policy_gradient = -(weight * targets.advantage * log_prob).sum()
    error = targets.value_target - value
    baseline_loss = 0.5 * (weight * error**2).sum()
    entropy = -(weight * (log_policy.exp() * log_policy).sum(2)).sum()
    total = policy_gradient + baseline_cost * baseline_loss - entropy_cost * entropy
    share = weight / weight.sum()
    explained = 1 - _variance(error.detach(), share) / _variance(targets.value_target, share).clamp(min=1e-8)
    ratio = (weight * (log_prob.detach() - behaviour_log_prob).exp()).sum()
    return Loss(total, policy_gradient.detach(), baseline_loss.detach(), entropy.detach(), explained, ratio)
