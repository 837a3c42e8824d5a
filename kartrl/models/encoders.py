"""Encoders: from an observation to a feature vector."""

import math
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from kartrl.config import Model
from kartrl.errors import UserError
from kartrl.models.normaliser import RunningNormaliser


class ConvEncoder(nn.Module):
    """Convolutions and a linear layer over uint8 images [B, H, W, C] -> float32 [B, hidden_size].

    Images and weights keep their channels last, the order in which PyTorch's convolutions are fastest. With precision
    bf16 the products are taken in bfloat16 and the parameters kept in float32; a copy that only predicts may be turned
    to bfloat16 whole.
    """

    bf16: Final[bool]  # fixed when the module is compiled: branches on it vanish
    normalises: Final[bool]

    def __init__(self, section: Model, shape: tuple[int, int, int]) -> None:
        super().__init__()
        height, width, channels = shape
        layers: list[nn.Module] = []
        for out_channels, kernel, stride in zip(section.channels, section.kernels, section.strides, strict=True):
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise UserError(
                    f"[model] kernels, strides: the convolutions do not fit an image of {shape[0]}x{shape[1]}"
                )
            layers.append(nn.Conv2d(channels, out_channels, kernel, stride))
            channels = out_channels
        self.convolutions = nn.ModuleList(layers)
        self.linear = nn.Linear(channels * height * width, section.hidden_size)
        self.bf16 = section.precision == "bf16"
        self.normalises = False
        _initialise(self)
        self.to(memory_format=torch.channels_last)

    def forward(self, observation: Tensor) -> Tensor:
        x = observation.permute(0, 3, 1, 2).to(
            torch.bfloat16 if self.bf16 else torch.float32
        )  # 0 to 255 are exact in either
        scale = 1.0 / 255.0  # of the first layer's weights rather than of the images, which are more
        for layer in self.convolutions:
            bias = layer.bias
            assert bias is not None
            x = functional.conv2d(x, self._rounded(layer.weight * scale), self._rounded(bias), layer.stride).relu_()
            scale = 1.0
        x = functional.linear(x.flatten(1), self._rounded(self.linear.weight), self._rounded(self.linear.bias)).relu_()
        return x.to(torch.float32)

    def observe(self, observation: Tensor) -> None:
        """See `VectorEncoder`: images are not normalised by statistics."""

    def _rounded(self, parameter: Tensor) -> Tensor:
        return parameter.to(torch.bfloat16) if self.bf16 else parameter


class VectorEncoder(nn.Module):
    """Two linear layers over float32 vectors [B, D] -> float32 [B, hidden_size]; always fp32, as bf16 gains nothing."""

    bf16: Final[bool]
    normalises: Final[bool]

    def __init__(self, section: Model, size: int) -> None:
        super().__init__()
        hidden = section.hidden_size
        self.normalises = section.normalise_observations
        self.normaliser = RunningNormaliser(size) if self.normalises else nn.Identity()
        self.layers = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.bf16 = False
        _initialise(self)

    def forward(self, observation: Tensor) -> Tensor:
        return self.layers(self.normaliser(observation.float()))

    def observe(self, observation: Tensor) -> None:
        """Count observations [N, D] in the running statistics, if there are any."""
        if self.normalises:
            self.normaliser.update(observation)


def make_encoder(section: Model, shape: tuple[int, ...]) -> nn.Module:
    """The encoder for observations of this shape: [H, W, C] images or [D] vectors."""
    if len(shape) == 3:
        return ConvEncoder(section, (shape[0], shape[1], shape[2]))
    return VectorEncoder(section, math.prod(shape))


def _initialise(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
            nn.init.zeros_(layer.bias)
