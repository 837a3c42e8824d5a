"""ACER (Wang et al. 2017, arXiv:1611.01224): off-policy actor-critic from fresh and from replayed unrolls.

Its parts are Retrace for the critic, importance weights that are truncated, with a correction of what that leaves out,
and a trust region around an average of past policies.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from kartrl.algorithms.algorithm import Algorithm, Batch, Loss, RewardTransform
from kartrl.algorithms.losses import entropy_bonus, value_loss
from kartrl.algorithms.retrace import retrace
from kartrl.config.algorithms import ACER as Section
from kartrl.config.schedule import Schedule
from kartrl.models import Distribution, Network, Output
from kartrl.models.average import AverageNetwork
from kartrl.models.scripting import scripted
from kartrl.trajectory import Trajectory, discounts, split_decision

SMALLEST = 1e-6  # probability that is divided by, or the square of what comes of it leaves float32


class ACER(Algorithm[Section]):
    """Algorithm 2 of the paper, for discrete actions, whose statistics phi are the probabilities themselves.

    All gradients are means over valid steps (the paper sums over the k steps of an unroll); the trust region is of each
    step by itself, as in the paper, before any mean. The entropy bonus is added outside of it. Fresh unrolls are
    corrected for what little they lag behind, as replayed ones are. A recurrent network and its average begin an unroll
    with the state with which the unroll was acted.
    """

    synchronous: ClassVar[bool] = False
    replays: ClassVar[bool] = True
    batch_share: ClassVar[float] = 0.25
    heads: ClassVar[frozenset[str]] = frozenset({"q"})
    actions: ClassVar[frozenset[str]] = frozenset({"discrete"})

    def __init__(
        self, section: Section, discount: Schedule, reward_transform: RewardTransform, distribution: Distribution
    ) -> None:
        super().__init__(section, discount, reward_transform, distribution)
        self._average = AverageNetwork()

    def prepare(self, network: Network, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        """See `Algorithm`: adds "average_policy", log-probabilities float32 [T, B, A] of the average network."""
        output, _ = self._average.of(network)(trajectory.observation, trajectory.first, trajectory.initial_state)
        return Batch(trajectory, {"average_policy": output.policy[:-1]}, steps)

    def after_step(self, network: Network) -> None:
        """See `Algorithm`: the average network follows."""
        self._average.follow(network, self._section.average_decay)

    def state_dict(self) -> dict[str, Tensor]:
        """See `Algorithm`: that of the average network; empty before the first update."""
        return self._average.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `Algorithm`."""
        self._average.load_state_dict(state)

    @classmethod
    def state_of(cls, network: dict[str, Tensor]) -> dict[str, Tensor]:
        """See `Algorithm`."""
        return network

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `Algorithm`: the policy's gradient within the trust region, error of Q(x_t, a_t), entropy bonus."""
        section, trajectory = self._section, batch.trajectory
        behaviour = split_decision(trajectory.decision, self.distribution.action_columns)
        action = behaviour.action.to(torch.int64)
        assert output.q is not None
        log_policy, value, q = output.policy[:-1], output.value.detach(), output.q[:-1]
        policy, taken_q = log_policy.exp(), q.gather(-1, action).squeeze(-1)
        ratio = (log_policy.detach() - behaviour.parameters).exp()
        taken_ratio = ratio.gather(-1, action).squeeze(-1)
        target = retrace(
            taken_ratio.clamp(max=1.0),
            self._transform(trajectory.reward),
            discounts(trajectory, self._discount.at(self.progress)),
            trajectory.valid,
            value[:-1],
            taken_q.detach(),
            value[-1],
        )
        advantage = target - value[:-1]
        gradient = policy_gradient(
            action.squeeze(-1),
            log_policy.detach(),
            behaviour.parameters,
            advantage,
            q.detach() - value[:-1].unsqueeze(-1),
            section.truncation,
        )
        average = batch.targets["average_policy"]
        divergence_gradient = -average.exp() / policy.detach().clamp(min=SMALLEST)
        held = within_trust_region(gradient, divergence_gradient, section.trust_region)
        weight = batch.weight
        surrogate = -(weight * (held * policy).sum(-1)).sum()
        value_error = value_loss(taken_q, target, weight)
        entropy = entropy_bonus(self.distribution.entropy(log_policy), weight)
        total = surrogate + section.value_cost * value_error - section.entropy_cost.at(self.progress) * entropy
        with torch.no_grad():
            behaviour_kl = self.distribution.kl(behaviour.parameters, log_policy)  # KL(mu || pi)
            terms = {
                "policy_gradient": surrogate,
                "value": value_error,
                "entropy": entropy,
                "rho_clipped": (weight * (taken_ratio > section.truncation)).sum(),  # share of truncated weights
                "trust_region": (weight * (held != gradient).any(-1)).sum(),  # share of steps that it changes
                "behaviour_kl": (weight * behaviour_kl).sum(),
                "average_kl": (weight * self.distribution.kl(average, log_policy)).sum(),  # KL(average || pi)
            }
        steps = {
            "value": taken_q,
            "value_target": target,
            "advantage": advantage,
            "importance_weight": taken_ratio,
            "behaviour_kl": behaviour_kl,
        }
        return Loss(total, terms, steps, trajectory.valid)


@scripted
def policy_gradient(
    action: Tensor, log_policy: Tensor, log_behaviour: Tensor, advantage: Tensor, action_advantage: Tensor, c: float
) -> Tensor:
    """g of equation 9, the objective's gradient with respect to the probabilities f of all actions, float [T, B, A].

    Of the action that was taken min(c, rho) / f (Q_ret - V), and of each action max(0, 1 - c / rho) (Q - V): f times
    the gradient of log f is 1. On-policy, with c of at least 1, there is no second term.

    Args:
        action: a_t, int64 [T, B].
        log_policy: log f(a | x_t), float [T, B, A].
        log_behaviour: log mu(a | x_t) of the policy that acted, float [T, B, A].
        advantage: Q_ret(x_t, a_t) - V(x_t), float [T, B].
        action_advantage: Q(x_t, a) - V(x_t), float [T, B, A].
        c: truncation of the importance weights.
    """
    taken = functional.one_hot(action, log_policy.shape[-1]).to(log_policy.dtype)
    weight = torch.minimum(c * (-log_policy).exp(), (-log_behaviour).exp().clamp(max=1e6))  # min(c, rho) / f
    weight = torch.where(taken > 0, weight, torch.zeros_like(weight))  # of others it may be infinite
    correction = (1 - c * (log_behaviour - log_policy).exp()).clamp(min=0.0)
    return weight * advantage.unsqueeze(-1) + correction * action_advantage


@scripted
def within_trust_region(gradient: Tensor, divergence_gradient: Tensor, delta: float) -> Tensor:
    """z = g - max(0, (k . g - delta) / |k|^2) k, equation 12: the nearest to g with k . z <= delta, of each step.

    Args:
        gradient: g, of the objective, float [..., A].
        divergence_gradient: k, of the KL divergence from the average policy, float [..., A].
    """
    excess = (divergence_gradient * gradient).sum(-1, keepdim=True) - delta
    return gradient - (excess / divergence_gradient.square().sum(-1, keepdim=True)).clamp(min=0.0) * divergence_gradient
