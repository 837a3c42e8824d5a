"""Encoders of whole observations: of their only part, or of each part of packed ones, by offsets in their rows."""

from typing import Final

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec
from kartrl.errors import UserError
from kartrl.models.encoders import make_part_encoder


class PartEncoder(nn.Module):
    """The encoder of one part of packed rows, uint8 [B, N] -> float32 [B, features]."""

    begin: Final[int]
    end: Final[int]
    image: Final[bool]
    features: Final[int]

    def __init__(self, section: Model, part: ObservationPart, begin: int) -> None:
        super().__init__()
        self.begin, self.end, self.image = begin, begin + part.nbytes, part.is_image
        self.shape = list(part.shape)  # TorchScript has no other sequence of any length
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
        # TorchScript knows no view of another dtype: it takes the dtype's number for a shape
        return torch.view_copy(part, dtype=torch.float32)


class PackedEncoder(nn.Module):
    """An encoder for each part of packed rows, uint8 [B, N] -> float32 [B, features], one after another."""

    normalises: Final[bool]
    features: Final[int]

    def __init__(self, section: Model, observation: ObservationSpec) -> None:
        super().__init__()
        places = zip(observation.parts, observation.begins, strict=True)
        parts = [PartEncoder(section, part, begin) for part, begin in places]
        self.parts = nn.ModuleList(parts)
        self.normalises = section.normalise_observations
        self.features = sum(part.features for part in parts)

    def forward(self, observation: Tensor) -> Tensor:
        features: list[Tensor] = []
        for part in self.parts:
            features.append(part(observation))  # TorchScript unrolls this loop, but no comprehension
        return torch.cat(features, 1)

    def observe(self, observation: Tensor) -> None:
        """Add observations [N, ...] to the running statistics of all parts, if there are any."""
        for part in self.parts:
            part.observe(observation)


def make_encoder(section: Model, observation: ObservationSpec) -> nn.Module:
    """Make the encoder for these observations: for several parts, an encoder each."""
    if observation.is_packed:
        return PackedEncoder(section, observation)
    return make_part_encoder(section, observation.parts[0].shape)
