"""Encoder, core, and heads for policy and value."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec
from kartrl.models.distributions import make_distribution
from kartrl.models.heads import AdvantageHead, initialised, policy_head
from kartrl.models.normaliser import RunningNormaliser
from kartrl.models.trunk import Trunk

VALUE = frozenset({"value"})  # the heads that most algorithms need besides the policy's


class Output(NamedTuple):
    """A network's output for each step."""

    policy: Tensor  # float32 [T + 1, B, P], parameters of the policy's distribution
    value: Tensor  # float32 [T + 1, B]
    q: Tensor | None = None  # float32 [T + 1, B, A], values of the discrete actions, if the network has that head
    features: Tensor | None = None  # float32 [T + 1, B, F], for `ActorCritic.advantages`, if it has that head


class ActorCritic(nn.Module):
    """A policy and a value, on a shared trunk or on one each, with any action distribution.

    Args:
        heads: besides the policy's: "value"; or "q", a value for each discrete action, whose mean under the policy,
            sum_a pi(a) Q(a), is then the value of an observation. For continuous actions "q" means "value" and the
            advantage of any action, the two streams of ACER's stochastic dueling network (arXiv:1611.01224).

    Attributes:
        state_size: S.
        parameter_size: P.
        normalises: whether `observe` has an effect.
        normalises_returns: whether `observe_returns` has one.
        masked: whether the environment says which actions are legal.

    Raises:
        UserError: the convolutions do not fit the image.
    """

    state_size: int

    def __init__(
        self,
        section: Model,
        observation: ObservationSpec,
        action: ActionSpec,
        heads: frozenset[str] = VALUE,
    ) -> None:
        super().__init__()
        self.has_q = "q" in heads and action.choices > 0
        self.dueling = "q" in heads and not self.has_q
        self.separate, self.detached = section.critic == "separate", section.critic == "detached"
        self.trunk = Trunk(section, observation)
        self.critic = Trunk(section, observation) if self.separate else nn.Identity()
        self.masked, self.parameter_size = action.masked, action.parameter_size
        self.distribution = make_distribution(action, squash=section.squash_actions)
        self.policy = policy_head(section, action, self.trunk.size)
        self.value = initialised(nn.Linear(self.trunk.size, action.choices if self.has_q else 1), 1.0)
        size = self.trunk.size
        self.advantage = AdvantageHead(size, action.columns, section.hidden_size) if self.dueling else nn.Identity()
        self.state_size = self.trunk.state_size * (2 if self.separate else 1)
        self.normalises = self.trunk.encoder.normalises
        self.normalises_returns = section.normalise_returns
        self.returns = RunningNormaliser((1,)) if self.normalises_returns else nn.Identity()

    def initial_state(self, batch: int) -> Tensor:
        """The recurrent state at the start of an episode, float32 [batch, S] of zeros."""
        return torch.zeros(batch, self.state_size, device=self.policy.weight.device)

    def step(
        self, observation: Tensor, first: Tensor, state: Tensor, restriction: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of B environments.

        Args:
            observation: uint8 [B, H, W, C] or float32 [B, D].
            first: bool [B]; where True, an episode begins and the state is zeroed first.
            state: float32 [B, S].
            restriction: float32 [B, P], which actions are legal; see `Distribution.restricted`. None: all.

        Returns:
            Parameters of the policy [B, P], value [B], next state [B, S].
        """
        if self.separate:
            own, critics = state.chunk(2, 1)
            features, own = self.trunk.step(observation, first, own)
            critic_features, critics = self.critic.step(observation, first, critics)
            output = self._say(features, critic_features, restriction)
            return output.policy, output.value, torch.cat([own, critics], 1)
        features, state = self.trunk.step(observation, first, state)
        output = self._say(features, features, restriction)
        return output.policy, output.value, state

    def act(
        self,
        observation: Tensor,
        first: Tensor,
        state: Tensor,
        noise: Tensor,
        greedy: bool,
        restriction: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`step`, and a decision: see `kartrl.trajectory.Decision`.

        Args:
            noise: from the distribution's `noise`, float32 [B, any].
            greedy: take the most likely action instead of sampling.

        Returns:
            float32 [B, K] (one tensor, so that one copy moves it to the CPU; action indices are exact in float32), next
            state [B, S].
        """
        parameters, value, state = self.step(observation, first, state, restriction)
        action = self.distribution.mode(parameters) if greedy else self.distribution.sample(parameters, noise)
        log_prob = self.distribution.log_prob(parameters, action)
        return torch.cat([action, log_prob.unsqueeze(1), value.unsqueeze(1), parameters], 1), state

    def features(self, observation: Tensor) -> Tensor:
        """The policy encoder's features of observations [N, ...]: float32 [N, F]."""
        return self.trunk.encoder(observation)

    def advantages(self, features: Tensor, action: Tensor) -> Tensor:
        """A(x, a) of n continuous actions [n, ..., D] for each of an output's features [..., F]: [n, ...].

        Its mean under the policy is not 0 by itself: the caller has to subtract that mean.
        """
        if self.dueling:
            return self.advantage(features, action)
        raise RuntimeError("the network has no such head")

    def observe(self, observation: Tensor) -> None:
        """Add observations [N, ...], all finite, to the running statistics with which the encoder normalises them."""
        self.trunk.observe(observation)
        if self.separate:
            self.critic.observe(observation)

    def return_deviation(self) -> Tensor:
        """Running standard deviation of returns, float32 [1]; rewards are divided by it, so values are in this unit."""
        if self.normalises_returns:
            return (self.returns.var + self.returns.epsilon).sqrt()
        return torch.ones(1)

    def observe_returns(self, value_target: Tensor, unit: float) -> None:
        """Add value targets [N], all finite, to the statistics of returns.

        The unit is the `return_deviation` that they were made with; others may have changed shared statistics since.
        The value head is then rescaled so that the returns it predicts stay the same in the new unit (PopArt,
        arXiv:1602.07714, without the shift).
        """
        if self.normalises_returns:
            with torch.no_grad():
                before = self.return_deviation()
                self.returns.update((value_target * unit).unsqueeze(1))
                change = before / self.return_deviation()
                self.value.weight.mul_(change)
                self.value.bias.mul_(change)
                if self.dueling:
                    self.advantage.last.weight.mul_(change)
                    self.advantage.last.bias.mul_(change)

    def forward(
        self, observation: Tensor, first: Tensor, state: Tensor, restriction: Tensor | None = None
    ) -> tuple[Output, Tensor]:
        """An unroll of T + 1 steps: as `step`, with a leading dimension T + 1 on everything but the state.

        The last step only provides the bootstrap value; no gradient flows through it, and none is computed. It takes no
        action, so a restriction is of T steps.
        """
        if self.separate:
            own, critics = state.chunk(2, 1)
            features, own = self.trunk.unroll(observation, first, own)
            critic_features, critics = self.critic.unroll(observation, first, critics)
            return self._say(features, critic_features, restriction), torch.cat([own, critics], 1)
        features, state = self.trunk.unroll(observation, first, state)
        return self._say(features, features, restriction), state

    def _say(self, features: Tensor, critic_features: Tensor, restriction: Tensor | None) -> Output:
        """Apply the heads to features [..., size]."""
        if self.detached:
            critic_features = critic_features.detach()
        output = self.policy(features)
        if restriction is not None:
            number = restriction.shape[0]
            output = torch.cat([self.distribution.restricted(output[:number], restriction), output[number:]])
        policy = self.distribution.normalise(output)
        values = self.value(critic_features)
        if self.has_q:
            return Output(policy, (policy.detach().exp() * values).sum(-1), values, None)  # a value loss trains Q alone
        return Output(policy, values.squeeze(-1), None, critic_features if self.dueling else None)
