"""CLEAR (Rolnick et al. 2019, arXiv:1811.11682): what was replayed is cloned, against forgetting."""

import torch
from torch import Tensor

from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.config.replay import Clear as Section
from kartrl.models import Distribution, Output
from kartrl.trajectory import split_decision


class Cloning:
    """Terms that are added to any algorithm's loss, of replayed steps alone; the means are over all steps of the batch.

    The paper's: KL(mu || pi) and (V - V_mu)^2, of the policy mu and its value V_mu that acted. The seed's: KL(pi || mu)
    and the norm |V - V_mu|, here of each unroll, where the seed takes that of the whole batch: parts so add up.
    """

    def __init__(self, section: Section, distribution: Distribution) -> None:
        self._section, self._distribution = section, distribution

    def added(self, loss: Loss, output: Output, batch: Batch) -> Loss:
        """The loss of these unrolls with the two terms."""
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
    """|x| of each unroll, [T, B] -> [B], with a gradient of 0 at 0."""
    square = error.square().sum(0)
    return torch.where(square > 0, square, torch.ones_like(square)).sqrt() * (square > 0)
