"""Encoders: from an observation to a feature vector."""

import math

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.errors import UserError


class ConvEncoder(nn.Module):
    """Convolutions and a linear layer over uint8 images [B, H, W, C] -> float32 [B, hidden_size]."""

    def __init__(self, section: Model, shape: tuple[int, int, int]) -> None:
        super().__init__()
        height, width, channels = shape
        layers: list[nn.Module] = []
        for out_channels, kernel, stride in zip(section.channels, section.kernels, section.strides, strict=True):
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise UserError(f"[model] kernels, strides: the convolutions do not fit an image of {shape[0]}x{shape[1]}")
            layers += [nn.Conv2d(channels, out_channels, kernel, stride), nn.ReLU()]
            channels = out_channels
        self.convolutions = nn.Sequential(*layers)
        self.linear = nn.Linear(channels * height * width, section.hidden_size)
        _initialise(self)

    def forward(self, observation: Tensor) -> Tensor:
        image = observation.permute(0, 3, 1, 2).float() / 255.0
        return torch.relu(self.linear(self.convolutions(image).flatten(1)))


class VectorEncoder(nn.Module):
    """Two linear layers over float32 vectors [B, D] -> float32 [B, hidden_size]."""

    def __init__(self, section: Model, size: int) -> None:
        super().__init__()
        hidden = section.hidden_size
        self.layers = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        _initialise(self)

    def forward(self, observation: Tensor) -> Tensor:
        return self.layers(observation.float())


def make_encoder(section: Model, shape: tuple[int, ...]) -> nn.Module:
    """The encoder for observations of this shape: [H, W, C] images or [D] vectors."""
    if len(shape) == 3:
        return ConvEncoder(section, (shape[0], shape[1], shape[2]))
    return VectorEncoder(section, math.prod(shape))


def _initialise(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
