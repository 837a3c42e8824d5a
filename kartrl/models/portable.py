"""One step of a network as a function of plain arrays, for other programs."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from kartrl.envs.masks import ILLEGAL
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import ActionSpec, Binary, Continuous, Part
from kartrl.models.actor_critic import ActorCritic


class Portable(nn.Module):
    """A network's step for B environments, with greedy actions as environments take them.

    Inputs, in this order:
        a tensor for each part of observations, uint8 [B, H, W, C] or float32 [B, D];
        if the network is recurrent, the state, float32 [B, S]: zeros where an episode begins;
        if masked, the mask, int8 [B, M]: for each alternative of a choice 1 if it is legal, else 0, and for each bit 0
        or 1 if it must have that value, else 2.

    Outputs, in this order:
        action, int64 [B] if it is a single choice, else float32 [B, D];
        policy, float32 [B, P], the parameters of its distribution;
        value, float32 [B], of transformed rewards;
        if the network is recurrent, the next state.

    Args:
        network: its encoders are replaced where observations have several parts with images.
    """

    def __init__(self, network: ActorCritic, observation: ObservationSpec, action: ActionSpec, masked: bool) -> None:
        super().__init__()
        self.network, self.masked, self.spec = network, masked, action
        self.packed = observation.is_packed
        if self.packed:
            trunks: list[Any] = [network.trunk, *[network.critic] * network.separate]
            for trunk in trunks:
                trunk.encoder = EachPart(trunk.encoder.parts)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        given = list(inputs)
        mask = given.pop() if self.masked else None
        size, batch = self.network.state_size, given[0].shape[0]
        state = given.pop() if size else given[0].new_zeros((batch, 0), dtype=torch.float32)
        observation: Any = given if self.packed else given[0] if len(given) == 1 else torch.cat(given, 1)
        first = torch.zeros_like(given[0].flatten(1)[:, 0], dtype=torch.bool)
        legal = None if mask is None else self._restriction(mask)
        policy, value, after = self.network.step(observation, first, state, legal)
        action = self._taken(cast(Any, self.network.distribution).mode(policy))
        value = value * self.network.return_deviation()
        return (action, policy, value, after) if size else (action, policy, value)

    def _restriction(self, mask: Tensor) -> Tensor:
        rows, begin = [], 0
        for part in self.spec.parts:
            if isinstance(part, Continuous):
                rows.append(torch.zeros_like(mask[:, :1], dtype=torch.float32).expand(-1, part.parameter_size))
                continue
            own = mask[:, begin : begin + part.parameter_size]
            begin += part.parameter_size
            legal = torch.zeros_like(own, dtype=torch.float32)
            if isinstance(part, Binary):
                legal = torch.where(own == 1, -ILLEGAL, legal)
            rows.append(torch.where(own == 0, ILLEGAL, legal))
        return torch.cat(rows, 1)

    def _taken(self, action: Tensor) -> Tensor:
        if self.spec.choices:
            return action[:, 0].to(torch.int64)
        parts = action.split([part.columns for part in self.spec.parts], 1)
        return torch.cat([_scaled(part, own) for part, own in zip(self.spec.parts, parts, strict=True)], 1)


class EachPart(nn.Module):
    """The encoder of each part of observations, on tensors of their own instead of packed rows."""

    def __init__(self, parts: nn.ModuleList) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(cast(nn.Module, part.encoder) for part in parts)

    def forward(self, parts: list[Tensor]) -> Tensor:
        return torch.cat([encoder(part) for encoder, part in zip(self.encoders, parts, strict=True)], 1)


def _scaled(part: Part, action: Tensor) -> Tensor:
    if not isinstance(part, Continuous):
        return action
    low, high = action.new_tensor(part.low), action.new_tensor(part.high)
    return low + (action + 1) * (0.5 * (high - low))
