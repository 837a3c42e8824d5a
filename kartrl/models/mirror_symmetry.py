"""Mirror symmetry: networks that treat an image and its mirror image alike, by tied weights."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.models import ActorCritic

CLOSE = 1e-3  # weights that differ by this fraction of the largest are still tied; rounding moves them by far less
Named = Iterator[tuple[str, Tensor]]  # names of parameters, and for each weight the one tied to it, int64 [numel]


class MirrorSymmetry:
    """Ties the weights of a network so that mirroring the observation, left to right, mirrors the policy.

    pi(a | x) = pi(mirrored[a] | mirrored x), and the values are the same, up to rounding: what is learned in left turns
    holds in right turns. This is a homomorphic network (van der Pol et al. 2020, arXiv:2006.16908) for a group of two
    elements, by group convolutions (Cohen and Welling 2016, arXiv:1602.07576): the second half of the channels or units
    of each layer contains what the first half would in the mirror image, so its weights are those of the first half,
    mirrored. Weights start tied, and gradients are averaged over tied weights, which keeps them so with any optimizer
    that treats all weights alike. So only learners need this; running the network is unchanged.

    Args:
        network: with discrete actions.
        shape: of an image, [H, W, C].
        mirrored: for each action, the one that does in the mirror image what it does in the image.

    Raises:
        UserError: the network cannot be symmetric: a layer is odd, or its stride does not fit the width.
    """

    def __init__(self, network: ActorCritic, shape: tuple[int, ...], mirrored: Sequence[int]) -> None:
        partners = dict(_of_network(network, shape, torch.tensor(mirrored)))
        device = next(iter(network.parameters())).device
        self._partners = [partners[name].to(device) for name, _ in network.named_parameters()]

    @torch.no_grad()
    def tie(self, parameters: Sequence[Tensor]) -> None:
        """Replace the second half of the network's weights by the first, mirrored."""
        for parameter, partners in zip(parameters, self._partners, strict=True):
            first = torch.minimum(partners, torch.arange(len(partners), device=partners.device))
            parameter.copy_(parameter.flatten()[first].view_as(parameter))

    @torch.no_grad()
    def holds(self, parameters: Sequence[Tensor]) -> bool:
        """Whether the network's weights are tied."""
        flat = [parameter.flatten() for parameter in parameters]
        return all(
            bool((weights - weights[partners]).abs().max() <= CLOSE * weights.abs().max())
            for weights, partners in zip(flat, self._partners, strict=True)
        )

    @torch.no_grad()
    def average_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Average the gradients of tied weights, in place."""
        for parameter, partners in zip(parameters, self._partners, strict=True):
            if (gradient := parameter.grad) is not None:
                flat = gradient.flatten()
                gradient.copy_((0.5 * (flat + flat[partners])).view_as(gradient))


def symmetry_of(network: ActorCritic, spec: EnvSpec) -> MirrorSymmetry | None:
    """The symmetry of a network for this environment; None if it names no mirrored actions."""
    return MirrorSymmetry(network, spec.observation.shape, spec.mirrored) if spec.mirrored else None


# In the functions below, a tensor describes how a mirror image permutes a layer: entry i is the index of the channel or
# unit whose output for the image is that of i for the mirror image.


def _of_network(network: Any, shape: tuple[int, ...], actions: Tensor) -> Named:
    features = yield from _of_trunk("trunk", network.trunk, shape)
    critic_features = (yield from _of_trunk("critic", network.critic, shape)) if network.separate else features
    yield from _of_linear("policy", network.policy, features, actions)
    yield from _of_linear("value", network.value, critic_features, actions if network.has_q else torch.arange(1))


def _of_trunk(name: str, trunk: Any, shape: tuple[int, ...]) -> Any:
    encoder = trunk.encoder
    if encoder.normalises:
        raise UserError("model.normalise_observations: running means of pixels are not symmetric; set it to false")
    if hasattr(encoder, "module") or hasattr(trunk.core, "module"):
        raise UserError("model.encoder and model.core: how mirror images change your own layers is unknown")
    image = _of_image if hasattr(encoder, "body") else _of_pixels
    features = yield from image(f"{name}.encoder", encoder, shape)
    for kind, gates in (("lstm", 4), ("gru", 3)):
        if hasattr(trunk.core, kind):
            features = yield from _of_core(f"{name}.core.{kind}", trunk.core.size, gates, features)
    return features


def _of_image(name: str, encoder: Any, shape: tuple[int, ...]) -> Any:
    _, width, colours = shape
    channels = torch.arange(colours)
    if hasattr(encoder.body, "convolutions"):
        for index, layer in enumerate(encoder.body.convolutions):
            channels, width = yield from _of_convolution(f"{name}.body.convolutions.{index}", layer, channels, width)
            if encoder.body.pooled:
                width = _narrowed(width, 2, 2, 0)
    else:
        for index, layer in enumerate(encoder.body.layers):
            layer_name = f"{name}.body.layers.{index}"
            if hasattr(layer, "convolutions"):
                for inner, convolution in enumerate(layer.convolutions):
                    yield from _of_convolution(f"{layer_name}.convolutions.{inner}", convolution, channels, width)
            elif hasattr(layer, "weight"):
                channels, width = yield from _of_convolution(layer_name, layer, channels, width)
            else:
                width = _narrowed(width, 3, 2, 1)
    features = channels
    if not encoder.average:
        _, height, width = encoder.body.shape
        features = _combined((len(channels), height, width), (channels, None, torch.arange(width).flip(0)))
    if hasattr(encoder.linear, "linear"):
        features = yield from _of_dense(f"{name}.linear", encoder.linear, features)
    return features


def _of_pixels(name: str, encoder: Any, shape: tuple[int, ...]) -> Any:
    features = _combined(shape, (None, torch.arange(shape[1]).flip(0), None))
    for index, layer in enumerate(encoder.layers):
        features = yield from _of_dense(f"{name}.layers.{index}", layer, features)
    return features


def _of_convolution(name: str, layer: Any, inputs: Tensor, width: int) -> Any:
    """The layer's channels and the width of its output."""
    shape = tuple(layer.weight.shape)
    outputs = _swapped(shape[0])
    yield f"{name}.weight", _combined(shape, (outputs, inputs, None, torch.arange(shape[3]).flip(0)))
    yield f"{name}.bias", outputs
    return outputs, _narrowed(width, layer.kernel_size[1], layer.stride[1], layer.padding[1])


def _of_dense(name: str, layer: Any, inputs: Tensor) -> Any:
    outputs = _swapped(len(layer.linear.bias))
    yield from _of_linear(f"{name}.linear", layer.linear, inputs, outputs)
    if layer.norm:
        yield from ((f"{name}.layer_norm.{kind}", outputs) for kind in ("weight", "bias"))
    return outputs


def _of_linear(name: str, layer: Any, inputs: Tensor, outputs: Tensor) -> Named:
    yield f"{name}.weight", _combined(tuple(layer.weight.shape), (outputs, inputs))
    yield f"{name}.bias", outputs


def _of_core(name: str, size: int, gates: int, inputs: Tensor) -> Any:
    outputs = _swapped(size)
    rows = _combined((gates, size), (None, outputs))
    for kind, columns in (("ih", inputs), ("hh", outputs)):
        yield f"{name}.weight_{kind}_l0", _combined((len(rows), len(columns)), (rows, columns))
        yield f"{name}.bias_{kind}_l0", rows
    return outputs


def _swapped(size: int) -> Tensor:
    """Both halves of a layer in exchange."""
    if size % 2:
        raise UserError(f"[model] a layer of {size}: mirror images need an even number of channels and units")
    return torch.arange(size).roll(size // 2)


def _narrowed(width: int, kernel: int, stride: int, padding: int) -> int:
    """Width after a convolution or pooling, if it treats both sides alike."""
    rest = (width + 2 * padding - kernel) % stride
    if rest:
        raise UserError(
            f"[model] a layer of kernel {kernel} and stride {stride} leaves {rest} of {width} columns out; "
            "mirror images need another environment.width"
        )
    return (width + 2 * padding - kernel) // stride + 1


def _combined(shape: tuple[int, ...], axes: Sequence[Tensor | None]) -> Tensor:
    """Indices of a tensor of this shape, flattened, with its axes permuted; None: not this axis."""
    every = torch.arange(torch.Size(shape).numel()).view(shape)
    for axis, permuted in enumerate(axes):
        if permuted is not None:
            every = every.index_select(axis, permuted)
    return every.flatten()
