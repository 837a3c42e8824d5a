"""Encoders: from an observation to a feature vector, by their names in the configuration."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from kartrl.config import Model
from kartrl.errors import UserError
from kartrl.models.normaliser import EPSILON, PIXEL_EPSILON, PixelNormaliser, RunningNormaliser
from kartrl.models.own_parts import OwnEncoder

Shape = tuple[int, int, int]  # of an image: [H, W, C]


class Convolution(nn.Conv2d):
    """A convolution in the precision of its input, whatever the precision of its parameters.

    In bfloat16, CPUs multiply many channels at a time, of which an image has few: a first layer of stride S reads each
    S neighbouring columns as one of S times the channels, which in channels-last images is a view.

    Args:
        image: the input, [B, C, H, W], is of 0 to 255 and scaled to at most 1, by way of the weights, which are fewer.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        image: bool = False,
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding)
        self.scale = 1.0 / 255.0 if image else 1.0
        self.columns = stride if image and not padding and kernel % stride == 0 else 1

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if self.scale != 1.0:
            weight = weight * self.scale
        weight, bias = weight.to(x.dtype), self.bias.to(x.dtype)
        if self.columns > 1 and x.dtype == torch.bfloat16 and x.device.type == "cpu":
            return functional.conv2d(self._wide(x), self._wide(weight), bias, (self.stride[0], 1))
        return functional.conv2d(x, weight, bias, self.stride, self.padding)

    def _wide(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, S * C, H, W // S], without the rest of W."""
        number, channels, height, width = x.shape
        wide = x[:, :, :, : width // self.columns * self.columns].permute(0, 2, 3, 1)
        return wide.reshape(number, height, width // self.columns, self.columns * channels).permute(0, 3, 1, 2)


class Linear(nn.Linear):
    """A linear layer in the precision of its input, whatever the precision of its parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class Dense(nn.Module):
    """A linear layer, optional layer normalisation (arXiv:1607.06450), and the activation, in the input's precision."""

    def __init__(self, inputs: int, outputs: int, section: Model) -> None:
        super().__init__()
        self.linear = Linear(inputs, outputs)
        self.norm, self.tanh = section.layer_norm, section.activation == "tanh"
        self.layer_norm = nn.LayerNorm(outputs) if self.norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs] -> [B, outputs]."""
        x = self.linear(x)
        if self.norm:
            norm = self.layer_norm
            x = functional.layer_norm(x, x.shape[-1:], norm.weight.to(x.dtype), norm.bias.to(x.dtype))
        return x.tanh_() if self.tanh else x.relu_()


class Convolutions(nn.Module):
    """Convolutions, each followed by max-pooling if `pooled` (A3G's network), and a ReLU.

    Attributes:
        shape: of the output, (C, H, W).
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: tuple[int, ...],
        kernels: tuple[int, ...],
        strides: tuple[int, ...],
        paddings: tuple[int, ...] | None = None,
        pooled: bool = False,
    ) -> None:
        super().__init__()
        height, width, inputs = shape
        self.pooled = pooled
        layers: list[nn.Module] = []
        for outputs, kernel, stride, padding in zip(
            channels, kernels, strides, paddings or [0] * len(channels), strict=True
        ):
            layers.append(Convolution(inputs, outputs, kernel, stride, padding, image=not layers))
            height, width = (
                ((size + 2 * padding - kernel) // stride + 1) // (2 if pooled else 1) for size in (height, width)
            )
            inputs = outputs
            if min(height, width) < 1:
                raise UserError(f"[model] the convolutions do not fit an image of {shape[0]}x{shape[1]}")
        self.convolutions = nn.ModuleList(layers)
        self.shape = (inputs, height, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W], of 0 to 255."""
        for convolution in self.convolutions:
            x = convolution(x)
            if self.pooled:
                x = functional.max_pool2d(x, 2)
            x = x.relu_()
        return x


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(relu(x)))), with 3x3 convolutions. The residual starts small, or a chain of six would grow."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(Convolution(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for convolution in self.convolutions:
            y = convolution(y.relu())
        return x + y


class ResidualConvolutions(nn.Module):
    """IMPALA's deep network (arXiv:1802.01561, figure 3, right): 15 convolutions.

    Three sections, each of a 3x3 convolution, 3x3 max-pooling with stride 2, and two residual blocks.

    Attributes:
        shape: of the output, (C, H, W).
    """

    CHANNELS = (16, 32, 32)

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        height, width, inputs = shape
        layers: list[nn.Module] = []
        for outputs in self.CHANNELS:
            layers.append(Convolution(inputs, outputs, 3, padding=1, image=not layers))
            layers += [nn.MaxPool2d(3, 2, padding=1), ResidualBlock(outputs), ResidualBlock(outputs)]
            height, width, inputs = (height + 1) // 2, (width + 1) // 2, outputs
        self.layers = nn.Sequential(*layers)
        self.shape = (inputs, height, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W], of 0 to 255."""
        return self.layers(x).relu()


class ImageEncoder(nn.Module):
    """Convolutions and an optional linear layer on uint8 images [B, H, W, C] -> float32 [B, features].

    Images and weights are channels-last, the layout in which PyTorch's convolutions are fastest. With precision bf16,
    layers compute in bfloat16 and parameters stay in float32; a copy for inference may convert these.

    Args:
        observation: its shape.
    """

    def __init__(
        self, section: Model, observation: Shape, body: Convolutions | ResidualConvolutions, linear: bool
    ) -> None:
        super().__init__()
        self.normalises = section.normalise_observations
        self.normaliser = PixelNormaliser(observation) if self.normalises else nn.Identity()
        self.body = body
        channels, height, width = body.shape
        self.average = section.pooling == "average"
        size = channels if self.average else channels * height * width
        self.linear = Dense(size, section.hidden_size, section) if linear else nn.Identity()
        self.features = section.hidden_size if linear else size
        self.bf16 = section.precision == "bf16"
        _initialise(self)
        self.to(memory_format=torch.channels_last)

    def forward(self, observation: Tensor) -> Tensor:
        x = observation.to(torch.bfloat16 if self.bf16 else torch.float32)  # 0 to 255 are exact in either
        x = self.body(self.normaliser(x).permute(0, 3, 1, 2))
        x = x.mean((2, 3)) if self.average else x.flatten(1)
        return self.linear(x).to(torch.float32)

    def observe(self, observation: Tensor) -> None:
        if self.normalises:
            self.normaliser.update(observation.float() / 255.0)


class MlpEncoder(nn.Module):
    """Two linear layers on float32 vectors [B, D], or on the pixels of uint8 images [B, H, W, C].

    Returns float32 [B, hidden_size]. It is always fp32, as bf16 gains nothing.
    """

    def __init__(self, section: Model, shape: tuple[int, ...]) -> None:
        super().__init__()
        size, hidden = math.prod(shape), section.hidden_size
        image = len(shape) == 3
        self.scale = 1.0 / 255.0 if image else 1.0
        self.normalises = section.normalise_observations
        self.normaliser = (
            RunningNormaliser((size,), PIXEL_EPSILON if image else EPSILON) if self.normalises else nn.Identity()
        )
        self.layers = nn.Sequential(Dense(size, hidden, section), Dense(hidden, hidden, section))
        self.bf16, self.features = False, hidden
        _initialise(self)

    def forward(self, observation: Tensor) -> Tensor:
        return self.layers(self.normaliser(self._flat(observation)))

    def observe(self, observation: Tensor) -> None:
        """Add observations [N, ...] to the running statistics, if there are any."""
        if self.normalises:
            self.normaliser.update(self._flat(observation))

    def _flat(self, observation: Tensor) -> Tensor:
        return observation.flatten(1).float() * self.scale


# Image encoders. All but the first two are as published, except for the first layer's input and the last layer's size.
ENCODERS: dict[str, Callable[[Model, Shape], nn.Module]] = {
    "convolutional": lambda section, shape: ImageEncoder(
        section, shape, Convolutions(shape, section.channels, section.kernels, section.strides), linear=True
    ),
    "mlp": MlpEncoder,
    # A3C's, and DQN's first version (arXiv:1602.01783, arXiv:1312.5602)
    "a3c": lambda section, shape: ImageEncoder(
        section, shape, Convolutions(shape, (16, 32), (8, 4), (4, 2)), linear=True
    ),
    # DQN's second version (Mnih et al. 2015, Nature 518)
    "nature": lambda section, shape: ImageEncoder(
        section, shape, Convolutions(shape, (32, 64, 64), (8, 4, 3), (4, 2, 1)), linear=True
    ),
    # from the repository rl_a3c_pytorch: no linear layer before its LSTM of 512
    "a3g": lambda section, shape: ImageEncoder(
        section,
        shape,
        Convolutions(shape, (32, 32, 64, 64), (5, 5, 4, 3), (1, 1, 1, 1), (2, 1, 1, 1), pooled=True),
        linear=False,
    ),
    "impala": lambda section, shape: ImageEncoder(section, shape, ResidualConvolutions(shape), linear=True),
}


def make_part_encoder(section: Model, shape: tuple[int, ...]) -> nn.Module:
    """Make the encoder for images [H, W, C], or for vectors [D], which have only one."""
    if section.encoder not in ENCODERS:
        return OwnEncoder(section, shape)
    if len(shape) == 3:
        return ENCODERS[section.encoder](section, (shape[0], shape[1], shape[2]))
    return MlpEncoder(section, shape)


def _initialise(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
            nn.init.zeros_(layer.bias)
        if isinstance(layer, Convolution) and layer.scale != 1.0:
            with torch.no_grad():  # filters of mean zero: else they mostly see brightness, and most die at once
                if not layer.weight.is_meta:  # whose mean loads PyTorch's compiler, for most of a second
                    layer.weight -= layer.weight.mean((1, 2, 3), keepdim=True)
    for block in module.modules():
        if isinstance(block, ResidualBlock):
            nn.init.orthogonal_(block.convolutions[1].weight, 0.2)
