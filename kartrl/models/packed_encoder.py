"""Encoders of whole observations: of their only part, or of each part of packed ones, by offsets in their rows."""

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec
from kartrl.errors import UserError
from kartrl.models.encoders import make_part_encoder


class PartEncoder(nn.Module):
    """The encoder of one part of packed rows, uint8 [B, N] -> float32 [B, features]."""

    features: int

    def __init__(self, section: Model, part: ObservationPart, begin: int) -> None:
        super().__init__()
        self.begin, self.end, self.image = begin, begin + part.nbytes, part.is_image
        self.shape = part.shape
        try:
            self.encoder = make_part_encoder(section, part.shape)
        except UserError as error:
            raise UserError(f"{error} (at {part.name})") from error
        self.features = self.encoder.features

    def forward(self, rows: Tensor) -> Tensor:
        return self.encoder(self._part(rows))

    def observe(self, rows: Tensor) -> None:
        self.encoder.observe(self._part(rows))

    def _part(self, rows: Tensor) -> Tensor:
        part = rows[:, self.begin : self.end]
        if self.image:
            return part.unflatten(1, self.shape)
        return part.clone().view(torch.float32)  # the copy is aligned


class PackedEncoder(nn.Module):
    """An encoder for each part of packed rows, uint8 [B, N] -> float32 [B, features], one after another."""

    def __init__(self, section: Model, observation: ObservationSpec) -> None:
        super().__init__()
        places = zip(observation.parts, observation.begins, strict=True)
        parts = [PartEncoder(section, part, begin) for part, begin in places]
        self.parts = nn.ModuleList(parts)
        self.normalises = section.normalise_observations
        self.features = sum(part.features for part in parts)

    def forward(self, observation: Tensor) -> Tensor:
        return torch.cat([part(observation) for part in self.parts], 1)

    def observe(self, observation: Tensor) -> None:
        """Add observations [N, ...] to the running statistics of all parts, if there are any."""
        for part in self.parts:
            part.observe(observation)


def make_encoder(section: Model, observation: ObservationSpec) -> nn.Module:
    """Make the encoder for these observations: for several parts, an encoder each."""
    if observation.is_packed:
        return PackedEncoder(section, observation)
    return make_part_encoder(section, observation.parts[0].shape)
