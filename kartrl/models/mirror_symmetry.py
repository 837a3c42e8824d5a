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
    """Ties the weights of a network so that mirroring the observation mirrors the policy.

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
        axis: of an image, whose order the mirror reverses: 1 exchanges left and right, 0 up and down.

    Raises:
        UserError: the network cannot be symmetric: a layer is odd, or its stride does not fit the image.
    """

    def __init__(self, network: ActorCritic, shape: tuple[int, ...], mirrored: Sequence[int], axis: int = 1) -> None:
        self._axis = axis
        partners = dict(_Layers(shape, axis).of_network(network, torch.tensor(mirrored)))
        device = next(iter(network.parameters())).device
        self._partners = [partners[name].to(device) for name, _ in network.named_parameters()]
        self._sizes = [len(each) for each in self._partners]
        begins = torch.tensor([0, *self._sizes[:-1]], device=device).cumsum(0)
        self._together = torch.cat([each + begin for each, begin in zip(self._partners, begins, strict=True)])

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

    def both(self, images: Tensor) -> Tensor:
        """Images [N, H, W, C] and their mirror images, [2 * N, H, W, C], whose statistics are symmetric."""
        return torch.cat([images, images.flip(1 + self._axis)])

    @torch.no_grad()
    def average_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Average the gradients of tied weights, in place."""
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        flat = flat.add_(flat.index_select(0, self._together)).mul_(0.5)
        pieces = zip(flat.split(self._sizes), gradients, strict=True)
        torch._foreach_copy_(gradients, [piece.view_as(gradient) for piece, gradient in pieces])


def symmetry_of(network: ActorCritic, spec: EnvSpec) -> MirrorSymmetry | None:
    """The symmetry of a network for this environment; None if it names no mirrored actions."""
    shape, axis = spec.observation.shape, 0 if spec.upside_down else 1
    return MirrorSymmetry(network, shape, spec.mirrored, axis) if spec.mirrored else None


class _Layers:
    """How a mirror image permutes the layers of a network, whose parameters each method yields.

    A tensor describes a layer: entry i is the index of the channel or unit whose output for the image is that of i for
    the mirror image.

    Args:
        shape: of an image, [H, W, C].
        axis: of an image, whose order the mirror reverses.
    """

    def __init__(self, shape: tuple[int, ...], axis: int) -> None:
        self._shape, self._axis = shape, axis

    def of_network(self, network: Any, actions: Tensor) -> Named:
        features = yield from self._of_trunk("trunk", network.trunk)
        critic_features = (yield from self._of_trunk("critic", network.critic)) if network.separate else features
        yield from _of_linear("policy", network.policy, features, actions)
        yield from _of_linear("value", network.value, critic_features, actions if network.has_q else torch.arange(1))

    def _of_trunk(self, name: str, trunk: Any) -> Any:
        encoder = trunk.encoder
        if hasattr(encoder, "module") or hasattr(trunk.core, "module"):
            raise UserError("model.encoder and model.core: how mirror images change your own layers is unknown")
        image = self._of_image if hasattr(encoder, "body") else self._of_pixels
        features = yield from image(f"{name}.encoder", encoder)
        for kind, gates in (("lstm", 4), ("gru", 3)):
            if hasattr(trunk.core, kind):
                features = yield from _of_core(f"{name}.core.{kind}", trunk.core.size, gates, features)
        return features

    def _of_image(self, name: str, encoder: Any) -> Any:
        side = self._shape[self._axis]
        channels = torch.arange(self._shape[2])
        if hasattr(encoder.body, "convolutions"):
            for index, layer in enumerate(encoder.body.convolutions):
                layer_name = f"{name}.body.convolutions.{index}"
                channels, side = yield from self._of_convolution(layer_name, layer, channels, side)
                if encoder.body.pooled:
                    side = self._narrowed(side, 2, 2, 0)
        else:
            for index, layer in enumerate(encoder.body.layers):
                layer_name = f"{name}.body.layers.{index}"
                if hasattr(layer, "convolutions"):
                    for inner, convolution in enumerate(layer.convolutions):
                        inner_name = f"{layer_name}.convolutions.{inner}"
                        yield from self._of_convolution(inner_name, convolution, channels, side)
                elif hasattr(layer, "weight"):
                    channels, side = yield from self._of_convolution(layer_name, layer, channels, side)
                else:
                    side = self._narrowed(side, 3, 2, 1)
        features = channels
        if not encoder.average:
            sides = encoder.body.shape[1:]
            features = _combined((len(channels), *sides), (channels, *self._reversed(sides)))
        if hasattr(encoder.linear, "linear"):
            features = yield from _of_dense(f"{name}.linear", encoder.linear, features)
        return features

    def _of_pixels(self, name: str, encoder: Any) -> Any:
        features = _combined(self._shape, self._reversed(self._shape[:2]))
        for index, layer in enumerate(encoder.layers):
            features = yield from _of_dense(f"{name}.layers.{index}", layer, features)
        return features

    def _of_convolution(self, name: str, layer: Any, inputs: Tensor, side: int) -> Any:
        """The layer's channels and the side of its output."""
        shape = tuple(layer.weight.shape)
        outputs = _swapped(shape[0])
        yield f"{name}.weight", _combined(shape, (outputs, inputs, *self._reversed(shape[2:])))
        yield f"{name}.bias", outputs
        axis = self._axis
        return outputs, self._narrowed(side, layer.kernel_size[axis], layer.stride[axis], layer.padding[axis])

    def _reversed(self, sides: Sequence[int]) -> list[Tensor | None]:
        """The order of an image's rows, and of its columns; None: the same."""
        return [torch.arange(side).flip(0) if axis == self._axis else None for axis, side in enumerate(sides)]

    def _narrowed(self, side: int, kernel: int, stride: int, padding: int) -> int:
        """Side after a convolution or pooling, if it treats both ends alike."""
        rest = (side + 2 * padding - kernel) % stride
        if rest:
            lines, key = (("rows", "height"), ("columns", "width"))[self._axis]
            raise UserError(
                f"[model] a layer of kernel {kernel} and stride {stride} leaves {rest} of {side} {lines} out; "
                f"mirror images need another environment.{key}"
            )
        return (side + 2 * padding - kernel) // stride + 1


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


def _combined(shape: tuple[int, ...], axes: Sequence[Tensor | None]) -> Tensor:
    """Indices of a tensor of this shape, flattened, with its axes permuted; None: not this axis."""
    every = torch.arange(torch.Size(shape).numel()).view(shape)
    for axis, permuted in enumerate(axes):
        if permuted is not None:
            every = every.index_select(axis, permuted)
    return every.flatten()
