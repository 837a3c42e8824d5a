"""PPO (Schulman et al. 2017, arXiv:1707.06347): several passes over each batch, with a clipped objective."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from kartrl.algorithms.a2c import last_value
from kartrl.algorithms.algorithm import Algorithm, Batch, Loss
from kartrl.algorithms.gae import generalised_advantage
from kartrl.algorithms.losses import (
    clipped_policy_loss,
    clipped_value_loss,
    entropy_bonus,
    normalised,
    value_loss,
)
from kartrl.config import Config
from kartrl.config.algorithms import PPO as Section
from kartrl.models import ActorCritic, Output
from kartrl.trajectory import Trajectory, discounts, split_decision

AnySection = TypeVar("AnySection", bound=Section)


def needs_unrolls(config: Config) -> str | None:
    """The key that rules out minibatches of single steps: a core needs their order, a replay the unroll of each."""
    if config.model.core != "none":
        return "model.core"
    return "replay.methods" if config.replays else None


class ClippedSurrogate(Algorithm[AnySection]):
    """Epochs of minibatches and the loss of equation 9, for the advantages and value targets from `prepare`.

    Clipping keeps the new policy close to the one that acted. `prepare` must add "advantage", "value_target" and
    "old_value" [T, B], and may add "trusted", a factor of the value error.
    """

    looks_ahead: ClassVar[bool] = False

    def minibatches(self, batch: Batch, losses: Sequence[Loss]) -> Iterator[Batch]:
        """See `Algorithm`: of whole unrolls or of single steps, reshuffled for each epoch.

        The KL limit stops the update between two epochs.

        Several learners divide their batches alike: a minibatch is the union of their parts, and the KL is their mean.
        """
        section = self.section
        if section.shuffle == "steps":
            batch = batch.single_steps()
        length, unrolls = batch.trajectory.reward.shape
        of_all = self.gather(torch.tensor([unrolls]))
        number = min(int(of_all.min()), max(1, round(length * int(of_all.sum()) / section.minibatch_size)))
        for _ in range(section.epochs):
            before = len(losses)
            order = torch.randperm(unrolls).to(batch.trajectory.reward.device)  # drawn on the CPU, alike on any device
            for chosen in order.tensor_split(number):
                yield batch.minibatch(chosen)
            if section.kl_limit:
                divergence = torch.as_tensor(sum(loss.terms["old_kl"] for loss in losses[before:]))
                divergence = self.gather(divergence[None]).mean()
                if float(divergence) > section.kl_limit * number:
                    return

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `Algorithm`: the clipped surrogate objective, value error and entropy bonus."""
        section, trajectory, targets = self.section, batch.trajectory, batch.targets
        behaviour = split_decision(trajectory.decision, self.distribution.action_columns)
        length = len(trajectory.reward)
        policy, value = output.policy[:length], output.value[:length]
        weight, share = batch.weight, batch.share
        clip_range = torch.as_tensor(section.clip_range.at(self.progress))
        ratio = (self.distribution.log_prob(policy, behaviour.action) - behaviour.log_prob).exp()
        surrogate = clipped_policy_loss(ratio, targets["advantage"], clip_range, weight)
        of_error = weight * targets["trusted"] if "trusted" in targets else weight
        if section.value_clip_range:
            value_error = clipped_value_loss(
                value, targets["value_target"], targets["old_value"], section.value_clip_range, of_error
            )
        else:
            value_error = value_loss(value, targets["value_target"], of_error)
        entropy = self.distribution.entropy(policy)
        bonus = section.entropy_cost.at(self.progress) * entropy_bonus(entropy, weight)
        total = surrogate + section.value_cost * value_error - bonus
        terms = {"policy_gradient": surrogate, "value": value_error, "entropy": (share * entropy.detach()).sum()}
        with torch.no_grad():
            if self.describes or section.kl_limit:
                terms["old_kl"] = (share * self.distribution.kl(behaviour.parameters, policy)).sum()  # KL(mu || pi)
            if self.describes:  # share of ratios outside the clip range
                terms["clip_fraction"] = (share * ((ratio - 1).abs() > clip_range)).sum()
        steps = {name: target for name, target in targets.items() if target.dim() == 2}
        return Loss(total, terms, steps | {"value": value}, trajectory.valid)


class PPO(ClippedSurrogate[Section]):
    """Agents wait for each update, so the values predicted while acting are the learner's: GAE uses these."""

    synchronous: ClassVar[bool] = True

    def prepare(self, network: ActorCritic, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        section, valid = self.section, trajectory.valid
        behaviour = split_decision(trajectory.decision, self.distribution.action_columns)
        advantage = generalised_advantage(
            self.transform(trajectory.reward),
            discounts(trajectory, self._discount.at(self.progress)),
            valid,
            behaviour.value,
            last_value(network, trajectory),
            section.gae_lambda,
        )
        targets = {"advantage": advantage, "value_target": advantage + behaviour.value, "old_value": behaviour.value}
        if section.normalise_advantages:
            targets["advantage"] = normalised(advantage, self.gather(advantage[valid]))
        return Batch(trajectory, targets, steps)
