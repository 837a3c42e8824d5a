"""ACER (Wang et al. 2017, arXiv:1611.01224): off-policy actor-critic from fresh and replayed unrolls.

Its parts are Retrace for the critic, truncated importance weights with bias correction, and a trust region around an
average of past policies.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from kartrl.algorithms.algorithm import Algorithm, Batch, Loss, RewardTransform
from kartrl.algorithms.losses import entropy_bonus, value_loss
from kartrl.algorithms.retrace import retrace
from kartrl.config.algorithms import ACER as Section
from kartrl.config.schedule import Schedule
from kartrl.envs.spec import ActionSpec, Continuous
from kartrl.models import ActorCritic, Distribution, Output, run
from kartrl.models.average import AverageNetwork
from kartrl.models.distributions import Categorical
from kartrl.trajectory import Decision, Trajectory, discounts, split_decision

SMALLEST = 1e-6  # probability to divide by, so that the square of the quotient stays within float32


class Parts(NamedTuple):
    """What differs between discrete and continuous actions; [T, B] unless noted."""

    statistics: Tensor  # phi, float32 [T, B, P]; the policy gradient is taken with respect to it
    gradient: Tensor  # g, of the objective, [T, B, P]
    divergence_gradient: Tensor  # k, of KL(average || pi), [T, B, P]
    ratio: Tensor  # rho of the action taken
    taken_q: Tensor  # Q(x_t, a_t)
    target: Tensor  # Q_ret(x_t, a_t)
    advantage: Tensor  # of the action taken, for the policy gradient
    value_error: Tensor  # scalar


class ACER(Algorithm[Section]):
    """Algorithms 2 and 3 of the paper, for discrete and continuous actions.

    The statistics phi of a policy are the probabilities of discrete actions, or all parameters of a Gaussian; the
    paper's Gaussian has a fixed deviation, so its phi is the mean alone. All gradients are means over valid steps (the
    paper sums over the k steps of an unroll). As in the paper, the trust region applies to each step by itself, before
    averaging, and the entropy bonus is not subject to it. The small policy lag of fresh unrolls is corrected like that
    of replayed ones. A recurrent network and its average start an unroll from the state that it had when acting.
    """

    synchronous: ClassVar[bool] = False
    replays: ClassVar[bool] = True
    batch_share: ClassVar[float] = 0.25
    heads: ClassVar[frozenset[str]] = frozenset({"q"})

    def __init__(
        self, section: Section, discount: Schedule, reward_transform: RewardTransform, distribution: Distribution
    ) -> None:
        super().__init__(section, discount, reward_transform, distribution)
        self._average = AverageNetwork()
        self._network: ActorCritic | None = None  # the learner's, for the `advantages` of continuous actions
        self._discrete = isinstance(distribution, Categorical)

    @classmethod
    def accepts(cls, action: ActionSpec) -> bool:
        """See `Algorithm`: Q is a value of each discrete action, or a network of continuous ones.

        Masks are not taken: an unroll bootstraps from the mean of Q over the legal actions of its last observation, and
        its decisions tell only those of the others.
        """
        kinds = action.choices > 0 or (len(action.parts) == 1 and isinstance(action.parts[0], Continuous))
        return kinds and not action.masked

    def prepare(self, network: ActorCritic, trajectory: Trajectory[Tensor], steps: int) -> Batch:
        """See `Algorithm`: adds "average_policy", float32 [T, B, P], parameters of the average network's policy.

        For continuous actions also "noise", float32 [T, B, (n + 1) D], from which n + 1 actions are sampled.
        """
        self._network = network
        targets = {"average_policy": run(self._average.of(network), trajectory).policy[:-1]}
        if not self._discrete:
            draws, shape = self.section.dueling_samples + 1, trajectory.reward.shape
            noise = self.distribution.noise(shape.numel() * draws, trajectory.reward.device, None)
            targets["noise"] = noise.view(*shape, -1)
        return Batch(trajectory, targets, steps)

    def after_step(self, network: ActorCritic) -> None:
        """See `Algorithm`: updates the average network."""
        self._average.follow(network, self.section.average_decay)

    def state_dict(self) -> dict[str, Tensor]:
        """See `Algorithm`: the state of the average network; empty before the first update."""
        return self._average.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._average.load_state_dict(state)

    @classmethod
    def state_of(cls, network: dict[str, Tensor]) -> dict[str, Tensor]:
        return network

    def loss(self, output: Output, batch: Batch) -> Loss:
        """See `Algorithm`: policy gradient within the trust region, error of Q(x_t, a_t), entropy bonus."""
        section, trajectory, weight, share = self.section, batch.trajectory, batch.weight, batch.share
        behaviour = split_decision(trajectory.decision, self.distribution.action_columns)
        parts = (self._of_discrete if self._discrete else self._of_continuous)(output, batch, behaviour)
        held = within_trust_region(parts.gradient, parts.divergence_gradient, section.trust_region)
        policy = output.policy[:-1]
        surrogate = -(weight * (held * parts.statistics).sum(-1)).sum()
        entropy = self.distribution.entropy(policy)
        bonus = section.entropy_cost.at(self.progress) * entropy_bonus(entropy, weight)
        total = surrogate + section.value_cost * parts.value_error - bonus
        with torch.no_grad():
            behaviour_kl = self.distribution.kl(behaviour.parameters, policy)  # KL(mu || pi)
            average_kl = self.distribution.kl(batch.targets["average_policy"], policy)  # KL(average || pi)
            terms = {
                "policy_gradient": surrogate,
                "value": parts.value_error,
                "entropy": (share * entropy).sum(),
                "rho_clipped": (share * (parts.ratio > section.truncation)).sum(),  # share of truncated weights
                "trust_region": (share * (held != parts.gradient).any(-1)).sum(),  # share of steps it changes
                "behaviour_kl": (share * behaviour_kl).sum(),
                "average_kl": (share * average_kl).sum(),
            }
        steps = {
            "value": parts.taken_q,
            "value_target": parts.target,
            "advantage": parts.advantage,
            "importance_weight": parts.ratio,
            "behaviour_kl": behaviour_kl,
        }
        return Loss(total, terms, steps, trajectory.valid)

    def _of_discrete(self, output: Output, batch: Batch, behaviour: Decision[Tensor]) -> Parts:
        """Algorithm 2: gradients are with respect to the probabilities f, and k = -f_average / f."""
        assert output.q is not None
        action = behaviour.action.to(torch.int64)
        log_policy, value, q = output.policy[:-1], output.value.detach(), output.q[:-1]
        policy, taken_q = log_policy.exp(), q.gather(-1, action).squeeze(-1)
        ratio = (log_policy.detach() - behaviour.parameters).exp().gather(-1, action).squeeze(-1)
        target = self._retrace(ratio.clamp(max=1.0), value, taken_q, batch)
        gradient = policy_gradient(
            action.squeeze(-1),
            log_policy.detach(),
            behaviour.parameters,
            target - value[:-1],
            q.detach() - value[:-1].unsqueeze(-1),
            self.section.truncation,
        )
        divergence_gradient = -batch.targets["average_policy"].exp() / policy.detach().clamp(min=SMALLEST)
        value_error = value_loss(taken_q, target, batch.weight)
        return Parts(policy, gradient, divergence_gradient, ratio, taken_q, target, target - value[:-1], value_error)

    def _of_continuous(self, output: Output, batch: Batch, behaviour: Decision[Tensor]) -> Parts:
        """Algorithm 3: Q from the stochastic dueling network (equation 13) with n + 1 sampled actions, one of them a'.

        V learns towards its own target (equation 14), in addition to what it learns as a part of Q. The policy's
        advantage uses Q_opc, which is Q_ret with traces of 1.
        """
        assert self._network is not None
        assert output.features is not None
        parameters, value = output.policy[:-1], output.value[:-1]
        phi, average = parameters.detach(), batch.targets["average_policy"]
        noise = batch.targets["noise"].unflatten(-1, (self.section.dueling_samples + 1, -1)).movedim(2, 0)
        drawn = self.distribution.sample(phi, noise)
        advantages = self._network.advantages(output.features[:-1], torch.cat([behaviour.action.unsqueeze(0), drawn]))
        q = value + advantages[:2] - advantages[2:].mean(0)  # of the action taken and of a'
        log_ratio = self.distribution.log_prob(phi, behaviour.action) - behaviour.log_prob
        ratio, all_values = log_ratio.exp(), output.value.detach()
        trace = (log_ratio / self.distribution.action_columns).exp().clamp(max=1.0)
        target = self._retrace(trace, all_values, q[0], batch)
        advantage = self._retrace(torch.ones_like(trace), all_values, q[0], batch) - all_values[:-1]
        gradient, divergence_gradient = gaussian_gradients(
            self.distribution,
            phi,
            behaviour,
            drawn[0],
            advantage,
            (q[1] - value).detach(),
            average,
            self.section.truncation,
        )
        value_target = value + ratio.clamp(max=1.0) * (target - q[0])
        value_error = value_loss(q[0], target, batch.weight) + value_loss(value, value_target, batch.weight)
        return Parts(parameters, gradient, divergence_gradient, ratio, q[0], target, advantage, value_error)

    def _retrace(self, trace: Tensor, value: Tensor, taken_q: Tensor, batch: Batch) -> Tensor:
        """`retrace` with traces [T, B], V [T + 1, B] and Q(x_t, a_t) [T, B]."""
        trajectory = batch.trajectory
        return retrace(
            trace,
            self.transform(trajectory.reward),
            discounts(trajectory, self._discount.at(self.progress)),
            trajectory.valid,
            value[:-1],
            taken_q.detach(),
            value[-1],
        )


def policy_gradient(
    action: Tensor, log_policy: Tensor, log_behaviour: Tensor, advantage: Tensor, action_advantage: Tensor, c: float
) -> Tensor:
    """g of equation 9, the objective's gradient with respect to the probabilities f of all actions, float [T, B, A].

    It is min(c, rho) / f (Q_ret - V) for the action taken, plus max(0, 1 - c / rho) (Q - V) for every action, where f
    times the gradient of log f is 1. On-policy, with c at least 1, the second term is 0.

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
    weight = torch.where(taken > 0, weight, torch.zeros_like(weight))  # for other actions it may be infinite
    correction = (1 - c * (log_behaviour - log_policy).exp()).clamp(min=0.0)
    return weight * advantage.unsqueeze(-1) + correction * action_advantage


def within_trust_region(gradient: Tensor, divergence_gradient: Tensor, delta: float) -> Tensor:
    """z = g - max(0, (k . g - delta) / |k|^2) k, equation 12: for each step, the z nearest to g with k . z <= delta.

    Args:
        gradient: g, gradient of the objective, float [..., A].
        divergence_gradient: k, gradient of the KL divergence from the average policy, float [..., A].
    """
    excess = (divergence_gradient * gradient).sum(-1, keepdim=True) - delta
    return gradient - (excess / divergence_gradient.square().sum(-1, keepdim=True)).clamp(min=0.0) * divergence_gradient


def gaussian_gradients(
    distribution: Distribution,
    phi: Tensor,
    behaviour: Decision[Tensor],
    drawn: Tensor,
    advantage: Tensor,
    drawn_advantage: Tensor,
    average: Tensor,
    c: float,
) -> tuple[Tensor, Tensor]:
    """g and k of algorithm 3, with respect to the policy's parameters phi of each step, float [T, B, P] each.

    g is the gradient of min(c, rho) log f(a) (Q_opc - V) + max(0, 1 - c / rho') log f(a') (Q - V), k that of
    KL(average || f).

    Args:
        phi: parameters of the learner's policy, float [T, B, P].
        behaviour: decisions of the policy that acted.
        drawn: a', sampled from the learner's policy, float [T, B, D].
        advantage: Q_opc(x_t, a_t) - V(x_t), float [T, B].
        drawn_advantage: Q(x_t, a') - V(x_t), float [T, B].
        average: parameters of the average policy, float [T, B, P].
        c: truncation of the importance weights.
    """
    with torch.enable_grad():
        phi = phi.detach().requires_grad_()
        log_prob, log_drawn = distribution.log_prob(phi, behaviour.action), distribution.log_prob(phi, drawn)
        weight = (log_prob.detach() - behaviour.log_prob).exp().clamp(max=c)
        inverse = (distribution.log_prob(behaviour.parameters, drawn) - log_drawn.detach()).exp()  # 1 / rho'
        correction = (1 - c * inverse).clamp(min=0.0)
        objective = weight * advantage * log_prob + correction * drawn_advantage * log_drawn
        (gradient,) = torch.autograd.grad(objective.sum(), phi)
        (divergence_gradient,) = torch.autograd.grad(distribution.kl(average, phi).sum(), phi)
    return gradient, divergence_gradient
