"""Encoder, core, and heads for policy and value."""

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.spec import ActionSpec
from kartrl.errors import UserError
from kartrl.models.cores import make_core
from kartrl.models.distributions import make_distribution
from kartrl.models.encoders import make_encoder
from kartrl.models.scripting import export

VALUE = frozenset({"value"})  # the heads beside the policy's that most algorithms need


class Output(NamedTuple):
    """What a network says of each step."""

    policy: Tensor  # float32 [T + 1, B, P], parameters of the policy's distribution
    value: Tensor  # float32 [T + 1, B]
    q: Tensor | None = None  # float32 [T + 1, B, A], values of the discrete actions, where the network has such a head


class ActorCritic(nn.Module):
    """The network of IMPALA's small agent (arXiv:1802.01561, figure 3), with any action distribution.

    Args:
        heads: beside the policy's: "value", or "q", which gives a value to each discrete action; the value of an
            observation is then their mean under the policy, sum_a pi(a) Q(a).

    Raises:
        UserError: the convolutions do not fit the image, or there is no "q" of continuous actions.
    """

    state_size: Final[int]
    normalises: Final[bool]  # whether `observe` does anything
    has_q: Final[bool]  # fixed when the module is compiled: branches on it vanish

    def __init__(
        self,
        section: Model,
        observation_shape: tuple[int, ...],
        action: ActionSpec,
        heads: frozenset[str] = VALUE,
    ) -> None:
        super().__init__()
        self.has_q = "q" in heads
        if self.has_q and action.kind != "discrete":
            raise UserError(f"a value for each action needs discrete ones, not {action.title}")
        self.encoder = make_encoder(section, observation_shape)
        self.core = make_core(section)
        self.distribution = make_distribution(action)
        self.policy = nn.Linear(section.hidden_size, self.distribution.parameter_size)
        self.value = nn.Linear(section.hidden_size, action.size if self.has_q else 1)
        self.state_size = self.core.state_size
        self.normalises = self.encoder.normalises
        nn.init.orthogonal_(self.policy.weight, 0.01)  # begin with all actions about equally likely
        nn.init.zeros_(self.policy.bias)
        nn.init.orthogonal_(self.value.weight, 1.0)
        nn.init.zeros_(self.value.bias)

    @export
    def initial_state(self, batch: int) -> Tensor:
        """The recurrent state at the start of an episode, float32 [batch, S] of zeros."""
        return torch.zeros(batch, self.state_size, device=self.policy.weight.device)

    @export
    def step(self, observation: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step of B environments.

        Args:
            observation: uint8 [B, H, W, C] or float32 [B, D].
            first: bool [B]; where True an episode begins here, and the state is zeroed before.
            state: float32 [B, S].

        Returns:
            Parameters of the policy [B, P], value [B], next state [B, S].
        """
        features, state = self.core.step(self.encoder(observation), first, state)
        policy = self.distribution.normalise(self.policy(features))
        return policy, self._values(policy, features)[0], state

    @export
    def act(
        self, observation: Tensor, first: Tensor, state: Tensor, noise: Tensor, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """`step`, and a decision: see `kartrl.trajectory.Decision`.

        Args:
            noise: from the distribution's `noise`, float32 [B, any].
            greedy: take the likeliest action rather than sample.

        Returns:
            float32 [B, K] (one tensor, so that one copy brings it back; action numbers are exact), next state [B, S].
        """
        parameters, value, state = self.step(observation, first, state)
        action = self.distribution.mode(parameters) if greedy else self.distribution.sample(parameters, noise)
        log_prob = self.distribution.log_prob(parameters, action)
        return torch.cat([action, log_prob.unsqueeze(1), value.unsqueeze(1), parameters], 1), state

    @export
    def observe(self, observation: Tensor) -> None:
        """Count observations [N, ...], all finite, in the running statistics by which the encoder normalises them."""
        self.encoder.observe(observation)

    def forward(self, observation: Tensor, first: Tensor, state: Tensor) -> tuple[Output, Tensor]:
        """An unroll of T + 1 steps: as `step`, with a leading dimension T + 1 on all but the state.

        The last step only gives the value to bootstrap from, through which no gradient flows; none is computed.
        """
        length, batch = first.shape[0] - 1, first.shape[1]
        features = self.encoder(observation[:length].flatten(0, 1)).unflatten(0, [length, batch])
        with torch.no_grad():
            last = self.encoder(observation[length])
        core, state = self.core.unroll(torch.cat([features, last.unsqueeze(0)]), first, state)
        policy = self.distribution.normalise(self.policy(core))
        value, q = self._values(policy, core)
        return Output(policy, value, q), state

    def _values(self, policy: Tensor, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """V [...], and Q [..., A] or None, of policies [..., P] and features [..., hidden_size]."""
        values = self.value(features)
        if self.has_q:
            return (policy.exp() * values).sum(-1), values
        return values.squeeze(-1), None
