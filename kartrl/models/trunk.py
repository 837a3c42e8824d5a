"""Encoder and core: everything between an observation and the heads."""

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.models.cores import make_core
from kartrl.models.packed_encoder import make_encoder


class Trunk(nn.Module):
    """An encoder and a core; its features are the core's output, [..., size]."""

    def __init__(self, section: Model, observation: ObservationSpec) -> None:
        super().__init__()
        self.encoder = make_encoder(section, observation)
        self.core = make_core(section, self.encoder.features)
        self.state_size, self.size = self.core.state_size, self.core.size

    def step(self, observation: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Features of one step [B, size] and the next state [B, S]; see `ActorCritic.step`."""
        return self.core.step(self.encoder(observation), first, state)

    def unroll(self, observation: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Features of an unroll [T + 1, B, size] and the state after it; see `ActorCritic.forward`."""
        length, batch = first.shape[0] - 1, first.shape[1]
        features = self.encoder(observation[:length].flatten(0, 1)).unflatten(0, [length, batch])
        with torch.no_grad():
            last = self.encoder(observation[length])
        return self.core.unroll(torch.cat([features, last.unsqueeze(0)]), first, state)

    def observe(self, observation: Tensor) -> None:
        self.encoder.observe(observation)
