"""APPO: PPO's clipped objective (arXiv:1707.06347) with V-trace targets (arXiv:1802.01561) and asynchronous agents.

Value targets and advantages are V-trace's, from the learner's network at the start of the update. The ratio is clipped
around the policy that acted, so the learner cannot move further from it than the clip range, however large the policy
lag. On-policy this is PPO with GAE. "Decoupled" PPO (Hilton et al. 2022, arXiv:2110.00641), which clips around a newer
policy, lost the kart's policy at a lag of ten updates (results/notebook-2026-11.md).
"""

from typing import ClassVar

from torch import Tensor

from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.algorithms.losses import normalised
from kartrl.algorithms.ppo import ClippedSurrogate
from kartrl.algorithms.vtrace import vtrace
from kartrl.config.algorithms import APPO as Section
from kartrl.models import ActorCritic, Output, run
from kartrl.trajectory import Trajectory, discounts, split_decision


class APPO(ClippedSurrogate[Section]):
    """V-trace, from the learner's policy and values at the start of the update."""

    synchronous: ClassVar[bool] = False
    replays: ClassVar[bool] = True
    has_vtrace: ClassVar[bool] = True
    group_size: ClassVar[int] = 2
    longest_unroll: ClassVar[int] = 64

    def prepare(self, network: ActorCritic, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        section, valid = self.section, trajectory.valid
        behaviour = split_decision(trajectory.decision, self.distribution.action_columns)
        output = run(network, trajectory)
        policy, value = output.policy[:-1], output.value[:-1]
        old_log_prob = self.distribution.log_prob(policy, behaviour.action)
        relevance, trust = self._relevance, {}
        if relevance is not None:
            lagged = relevance.lagged_policy(network, trajectory)
            trust = {"trusted": relevance.trusted(policy, behaviour.parameters, lagged)}
        targets = vtrace(
            behaviour.log_prob,
            old_log_prob,
            self.transform(trajectory.reward),
            discounts(trajectory, self._discount.at(self.progress)),
            valid,
            value,
            output.value[-1],
            section.rho_bar,
            section.c_bar,
            section.gae_lambda,
            trust.get("trusted"),
            relevance is not None and relevance.whole,
        )
        advantage = targets.advantage
        if section.normalise_advantages:
            advantage = normalised(advantage, self.gather(advantage[valid]))
        return Batch(
            trajectory,
            {
                "advantage": advantage * trust.get("trusted", 1.0),
                "value_target": targets.value_target,
                "old_value": value,
                "importance_weight": (old_log_prob - behaviour.log_prob).exp(),
                "behaviour_kl": self.distribution.kl(behaviour.parameters, policy),
                **trust,
            },
            steps,
        )

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `ClippedSurrogate`; also logs how far the learner was from the policy that acted, before the update."""
        loss, targets = super().loss(output, batch), batch.targets
        if not self.describes:
            return loss
        share = batch.share
        loss.terms["rho_clipped"] = (share * (targets["importance_weight"] > self.section.rho_bar)).sum()
        loss.terms["behaviour_kl"] = (share * targets["behaviour_kl"]).sum()  # KL(mu || pi)
        if "trusted" in targets:
            loss.terms["masked"] = (share * (1 - targets["trusted"])).sum()  # share of masked steps
        return loss
