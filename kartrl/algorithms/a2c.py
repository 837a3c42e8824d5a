"""A2C: the synchronous form of A3C (Mnih et al. 2016, arXiv:1602.01783), with generalised advantage estimation."""

import functools
from typing import ClassVar, TypeVar

from torch import Tensor

from kartrl.algorithms.algorithm import Algorithm, Batch, Loss
from kartrl.algorithms.gae import generalised_advantage
from kartrl.algorithms.losses import entropy_bonus, normalised, policy_gradient_loss, value_loss
from kartrl.config.algorithms import A2C as Section
from kartrl.models import ActorCritic, Output, run
from kartrl.trajectory import Trajectory, discounts, split_decision

AnySection = TypeVar("AnySection", bound=Section)


class AdvantageActorCritic(Algorithm[AnySection]):
    """The gradient of section 4 of the paper, as a mean over valid steps."""

    def _values(self, network: ActorCritic, trajectory: Trajectory[Tensor]) -> tuple[Tensor, Tensor]:
        """V(x_t) as predicted while acting, float32 [T, B], and the learner's V(x_T), float32 [B]."""
        acted = split_decision(trajectory.decision, self.distribution.action_columns)
        return acted.value, last_value(network, trajectory)

    def prepare(self, network: ActorCritic, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        """See `Algorithm`: adds "advantage", and "value_target", which is a lambda-return or an n-step return."""
        section, valid = self.section, trajectory.valid
        value, bootstrap_value = self._values(network, trajectory)
        advantage_with = functools.partial(
            generalised_advantage,
            self.transform(trajectory.reward),
            discounts(trajectory, self._discount.at(self.progress)),
            valid,
            value,
            bootstrap_value,
        )
        advantage = advantage_with(section.gae_lambda)
        target = value + (advantage if section.value_target == "lambda" else advantage_with(1.0))
        if section.normalise_advantages:
            advantage = normalised(advantage, self.gather(advantage[valid]))
        return Batch(trajectory, {"advantage": advantage, "value_target": target}, steps)

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `Algorithm`: policy gradient, value error and entropy bonus."""
        section, trajectory = self.section, batch.trajectory
        action = split_decision(trajectory.decision, self.distribution.action_columns).action
        policy, value = output.policy[:-1], output.value[:-1]
        weight = batch.weight
        log_prob = self.distribution.log_prob(policy, action)
        policy_gradient = policy_gradient_loss(log_prob, batch.targets["advantage"], weight)
        value_error = value_loss(value, batch.targets["value_target"], weight)
        entropy = entropy_bonus(self.distribution.entropy(policy), weight)
        total = policy_gradient + section.value_cost * value_error - section.entropy_cost.at(self.progress) * entropy
        terms = {"policy_gradient": policy_gradient, "value": value_error, "entropy": entropy}
        return Loss(total, terms, {"value": value, **batch.targets}, trajectory.valid)


class A2C(AdvantageActorCritic[Section]):
    """Agents wait for each update, so all steps are on-policy: the values predicted while acting are the learner's."""

    synchronous: ClassVar[bool] = True


def last_value(network: ActorCritic, trajectory: Trajectory[Tensor]) -> Tensor:
    """V(x_T), from which an unroll bootstraps, float32 [B]; a recurrent network has to run over all its steps."""
    if network.state_size:
        return run(network, trajectory).value[-1]
    return network.step(trajectory.observation[-1], trajectory.first[-1], trajectory.initial_state)[1]
