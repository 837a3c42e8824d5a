"""CLEAR (Rolnick et al. 2019, arXiv:1811.11682): behavioural cloning, against forgetting."""

import torch
from torch import Tensor

from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.config.replay import Clear as Section
from kartrl.models import Distribution, Output
from kartrl.trajectory import split_decision


class Cloning:
    """Terms added to any algorithm's loss; means are over all steps of the batch.

    `form = paper`: KL(mu || pi) and (V - V_mu)^2 of replayed steps, where mu is the policy that acted and V_mu its
    value. `form = seed`: KL(pi || mu) and the norm |V - V_mu| of all steps, fresh ones too, except those that LASER
    masks; the norm is taken per unroll, so that parts of a batch add up, where the original takes that of the batch.

    Args:
        threshold: `form = seed`: leave out steps whose KL(pi || mu) is at least this; 0: none.
    """

    def __init__(self, section: Section, distribution: Distribution, threshold: float = 0.0) -> None:
        self.section, self._distribution, self._threshold = section, distribution, threshold

    def added(self, loss: Loss, output: Output, batch: Batch) -> Loss:
        """The loss of these unrolls with the two terms added."""
        section, trajectory = self.section, batch.trajectory
        behaviour = split_decision(trajectory.decision, self._distribution.action_columns)
        length = len(trajectory.reward)
        policy, error = output.policy[:length], output.value[:length] - behaviour.value
        if section.form == "paper":
            weight = batch.weight * ~trajectory.online
            divergence = self._distribution.kl(behaviour.parameters, policy)
            value_error = (weight * error**2).sum()
        else:
            divergence = self._distribution.kl(policy, behaviour.parameters)
            weight = batch.weight
            if self._threshold:
                weight = weight * (divergence < self._threshold)
            value_error = _norm(error * (weight > 0)).mul(weight.amax(0)).sum()
        policy_error = (weight * divergence).sum()
        total = loss.total + section.policy_cost * policy_error + section.value_cost * value_error
        return loss._replace(
            total=total, terms={**loss.terms, "policy_cloning": policy_error, "value_cloning": value_error}
        )


def _norm(error: Tensor) -> Tensor:
    """|x| of each unroll, [T, B] -> [B], whose gradient is 0 at 0."""
    square = error.square().sum(0)
    return torch.where(square > 0, square, torch.ones_like(square)).sqrt() * (square > 0)
