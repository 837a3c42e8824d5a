"""CLEAR (Rolnick et al. 2019, arXiv:1811.11682): behavioural cloning on replayed steps, against forgetting."""

import torch
from torch import Tensor

from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.config.replay import Clear as Section
from kartrl.models import Distribution, Output
from kartrl.trajectory import split_decision


class Cloning:
    """Terms added to any algorithm's loss, for replayed steps alone; means are over all steps of the batch.

    `form = paper`: KL(mu || pi) and (V - V_mu)^2, where mu is the policy that acted and V_mu its value. `form = seed`:
    KL(pi || mu) and the norm |V - V_mu|, here per unroll, so that parts of a batch add up; the original takes the norm
    over the whole batch.
    """

    def __init__(self, section: Section, distribution: Distribution) -> None:
        self._section, self._distribution = section, distribution

    def added(self, loss: Loss, output: Output, batch: Batch) -> Loss:
        """The loss of these unrolls with the two terms added."""
        section, trajectory = self._section, batch.trajectory
        behaviour = split_decision(trajectory.decision, self._distribution.action_columns)
        policy, error = output.policy[:-1], output.value[:-1] - behaviour.value
        weight = batch.weight * ~trajectory.online
        if section.form == "paper":
            divergence = self._distribution.kl(behaviour.parameters, policy)
            value_error = (weight * error**2).sum()
        else:
            divergence = self._distribution.kl(policy, behaviour.parameters)
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
