"""IMPALA (Espeholt et al. 2018, arXiv:1802.01561): asynchronous actors, corrected by V-trace."""

from typing import ClassVar

import torch
from torch import Tensor

from kartrl.algorithms.algorithm import Algorithm, Batch, Loss
from kartrl.algorithms.losses import entropy_bonus, policy_gradient_loss, value_loss
from kartrl.algorithms.vtrace import vtrace
from kartrl.config.algorithms import Impala as Section
from kartrl.models import ActorCritic, Output
from kartrl.trajectory import Trajectory, discounts, split_decision


class Impala(Algorithm[Section]):
    """The loss of section 4.2, as a mean over valid steps (the paper sums): learning rates do not depend on T and B."""

    synchronous: ClassVar[bool] = False
    replays: ClassVar[bool] = True
    has_vtrace: ClassVar[bool] = True
    batch_share: ClassVar[float] = 0.25

    def prepare(self, network: ActorCritic, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        """See `Algorithm`: adds what LASER's mask needs."""
        relevance = self._relevance
        return Batch(trajectory, {} if relevance is None else relevance.lagged_policy(network, trajectory), steps)

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `Algorithm`: policy gradient with V-trace's advantage, value error against v_s, entropy bonus."""
        section, trajectory = self.section, batch.trajectory
        behaviour = split_decision(trajectory.decision, self.distribution.action_columns)
        policy, value = output.policy[:-1], output.value[:-1]
        log_prob = self.distribution.log_prob(policy, behaviour.action)
        relevance, trusted = self._relevance, None
        if relevance is not None:
            trusted = relevance.trusted(policy.detach(), behaviour.parameters, batch.targets)
        targets = vtrace(
            behaviour.log_prob,
            log_prob.detach(),
            self.transform(trajectory.reward),
            discounts(trajectory, self._discount.at(self.progress)),
            trajectory.valid,
            value.detach(),
            output.value[-1].detach(),
            section.rho_bar,
            section.c_bar,
            section.trace_lambda,
            trusted,
            relevance is not None and relevance.whole,
        )
        importance_weight = (log_prob.detach() - behaviour.log_prob).exp()
        advantage = importance_weight.clamp(max=section.policy_rho_bar) * targets.advantage
        weight, share = batch.weight, batch.share
        of_error = weight if trusted is None else weight * trusted
        policy_gradient = policy_gradient_loss(log_prob, advantage, of_error)
        value_error = value_loss(value, targets.value_target, of_error)
        entropy = self.distribution.entropy(policy)
        bonus = section.entropy_cost.at(self.progress) * entropy_bonus(entropy, weight)
        total = policy_gradient + section.value_cost * value_error - bonus
        with torch.no_grad():
            clipped = (share * (importance_weight > section.rho_bar)).sum()
            divergence = self.distribution.kl(behaviour.parameters, policy)
        terms = {
            "policy_gradient": policy_gradient,
            "value": value_error,
            "entropy": (share * entropy.detach()).sum(),
            "rho_clipped": clipped,  # share of importance weights above rho_bar
            "behaviour_kl": (share * divergence).sum(),  # KL(mu || pi): 0 on-policy
        }
        steps = {
            "value": value,
            "value_target": targets.value_target,
            "advantage": advantage,
            "importance_weight": importance_weight,
            "behaviour_kl": divergence,
        }
        if trusted is not None:
            steps["trusted"] = trusted
            terms["masked"] = (share * (1 - trusted)).sum()  # share of masked steps
        return Loss(total, terms, steps, trajectory.valid)
