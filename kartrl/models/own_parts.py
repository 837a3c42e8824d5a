"""Encoders and cores of the user's own, made by functions that `model.encoder` and `model.core` name."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.envs.named_modules import import_function
from kartrl.errors import UserError, located
from kartrl.models.normaliser import EPSILON, PIXEL_EPSILON, RunningNormaliser

PROBE = 2  # rows with which a part is tried
KEPT = (torch.float32, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # in checkpoints


class OwnEncoder(nn.Module):
    """A user's encoder of images or vectors, [B, ...] -> float32 [B, features].

    The user's function gets the shape of what its module reads, (C, H, W) or (D,): images as float32 of 0 to 1,
    vectors as they are, or both normalised.
    """

    def __init__(self, section: Model, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.bf16, self.normalises, self.image = False, section.normalise_observations, len(shape) == 3
        self.normaliser = (
            RunningNormaliser((math.prod(shape),), PIXEL_EPSILON if self.image else EPSILON)
            if self.normalises
            else nn.Identity()
        )
        inner = (shape[2], shape[0], shape[1]) if self.image else shape
        module = _made("model.encoder", section.encoder, inner)
        output = _tried("model.encoder", section.encoder, module, inner)
        self.features = _width("model.encoder", section.encoder, output)
        self.module = _placed(module)

    def forward(self, observation: Tensor) -> Tensor:
        x = self.normaliser(self._flat(observation)).view(observation.shape)
        return self.module(x.permute(0, 3, 1, 2) if self.image else x)

    def observe(self, observation: Tensor) -> None:
        """Add observations [N, ...] to the running statistics, if there are any."""
        if self.normalises:
            self.normaliser.update(self._flat(observation))

    def _flat(self, observation: Tensor) -> Tensor:
        x = observation.flatten(1).float()
        return x / 255.0 if self.image else x


def make_own_core(section: Model, features: int) -> tuple[nn.Module, int, int]:
    """A user's core, float32 [B, features], [B, S] -> [B, size], [B, S]; its size and S, its `state_size`.

    Raises:
        UserError: it is not such a module.
    """
    key, value = "model.core", section.core
    module = _made(key, value, features)
    state_size: Any = getattr(module, "state_size", None)
    if not isinstance(state_size, int) or state_size < 1:
        raise UserError(f"{key} = {value}: its module needs an attribute state_size, the numbers of its state")
    output = _tried(key, value, module, (features,), (state_size,))
    if not isinstance(output, tuple) or len(output) != 2 or _width(key, value, output[1]) != state_size:
        raise UserError(f"{key} = {value}: its module must return its output and its next state, [B, {state_size}]")
    return _placed(module), _width(key, value, output[0]), state_size


def _placed(module: nn.Module) -> nn.Module:
    """The module where modules are made at present, which for an outline is no memory."""
    return module.to(torch.get_default_device())


def _made(key: str, value: str, argument: Any) -> nn.Module:
    try:
        with torch.device("cpu"):  # not as an outline, which has no numbers to read or to compute with
            module = import_function(key, value)(argument)
    except UserError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise UserError(f"{key} = {value}: {located(error)}") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"{key} = {value}: returned {type(module).__name__}, not a torch.nn.Module")
    for name, kept in module.state_dict().items():
        if not isinstance(kept, Tensor) or kept.dtype not in KEPT:
            found = str(kept.dtype).removeprefix("torch.") if isinstance(kept, Tensor) else type(kept).__name__
            raise UserError(f"{key} = {value}: its {name} is {found}; checkpoints keep float32, bool and integers")
        if not kept.isfinite().all():
            raise UserError(f"{key} = {value}: its {name} is not finite; register a mask as bool, or persistent=False")
    return module


@torch.no_grad()
def _tried(key: str, value: str, module: nn.Module, *shapes: tuple[int, ...]) -> Any:
    """What the module, which is on the CPU, returns for inputs of these shapes."""
    module.eval()  # so that running statistics stay as they are
    try:
        with torch.device("cpu"):
            return module(*(torch.zeros(PROBE, *shape) for shape in shapes))
    except Exception as error:
        raise UserError(f"{key} = {value}: {located(error)}") from error
    finally:
        module.train()


def _width(key: str, value: str, output: Any) -> int:
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != PROBE or output.dtype != torch.float32:
        found = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise UserError(
            f"{key} = {value}: for a batch of {PROBE} its module must return float32 [{PROBE}, N], not {found}"
        )
    return output.shape[1]
