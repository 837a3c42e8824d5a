"""Diagnostics of an update, as scalars for the logger: computed for few updates, as this waits for the device."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kartrl.algorithms.algorithm import Loss
from kartrl.models import ActorCritic, Distribution, run
from kartrl.trajectory import Trajectory

QUANTILES = (0.05, 0.5, 0.95)
PROBE_UNROLLS = 2  # on which the policies before and after an update are compared


def describe(losses: Sequence[Loss], minibatches: int = 1) -> dict[str, float]:
    """The loss of an update, its terms, and statistics of its valid steps.

    Statistics are over all minibatches together: within a small one values and targets hardly vary, so that a mean of
    their explained variances would be far too low.

    Returns:
        `losses/...`: the loss and its terms, averaged over the minibatches, explained_variance, value_mean, value_std,
        the quantiles advantage_p05 to advantage_p95, and, if there are importance weights, effective_sample_size
        (Kish's, as a share: 1 on-policy, 0 if no action could be the learner's).
    """
    totals = {"total": sum(loss.total for loss in losses)}
    totals |= {name: sum(loss.terms[name] for loss in losses) for name in losses[0].terms}
    scalars = {f"losses/{name}": float(total) / minibatches for name, total in totals.items()}
    steps = {name: torch.cat([loss.steps[name][loss.valid] for loss in losses]) for name in losses[0].steps}
    steps = {name: values.cpu().double() for name, values in steps.items()}  # not all devices have float64
    value, target, advantage = steps["value"], steps["value_target"], steps["advantage"]
    if len(value) == 0:
        return scalars
    low, median, high = torch.quantile(advantage, advantage.new_tensor(QUANTILES)).tolist()
    scalars |= {
        "losses/explained_variance": explained_variance(value, target),
        "losses/value_mean": float(value.mean()),
        "losses/value_std": float(value.std(correction=0)),
        "losses/advantage_p05": low,
        "losses/advantage_p50": median,
        "losses/advantage_p95": high,
    }
    if "importance_weight" in steps:
        scalars["losses/effective_sample_size"] = effective_sample_size(steps["importance_weight"])
    return scalars


def effective_sample_size(weight: Tensor) -> float:
    """(sum w)^2 / (N sum w^2) of weights >= 0, float64 [N]; those that overflowed to infinity count alike."""
    largest = float(weight.max())
    if largest == 0:
        return 0.0
    relative = (weight / largest).nan_to_num(1.0)
    return float(relative.sum() ** 2 / (len(relative) * (relative**2).sum()))


def explained_variance(value: Tensor, target: Tensor) -> float:
    """1 - Var(target - V) / Var(target), both float64 [N]; 0 where targets do not vary."""
    variance = float(target.var(correction=0)) if len(target) else 0.0
    return 1 - float((target - value).var(correction=0)) / variance if variance > 1e-12 else 0.0


class PolicyProbe:
    """KL(before || after) of an update, on the first unrolls with a valid step in its batch, by two forward passes.

    Args:
        trajectory: of the batch, on the network's device.
    """

    def __init__(self, network: ActorCritic, distribution: Distribution, trajectory: Trajectory[Tensor]) -> None:
        self._network, self._distribution = network, distribution
        some = trajectory.valid.any(0).nonzero()[:PROBE_UNROLLS, 0]
        self._trajectory = trajectory.unrolls(some if len(some) else slice(0, 1))
        self._before = self._policy()

    def divergence(self) -> float | None:
        """The mean over valid steps, None if there are none; call this after the update."""
        divergence = self._distribution.kl(self._before, self._policy())[self._trajectory.valid]
        return float(divergence.mean()) if len(divergence) else None

    @torch.no_grad()
    def _policy(self) -> Tensor:
        return run(self._network, self._trajectory).policy[:-1]
