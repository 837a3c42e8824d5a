"""Optimizers, by their names in the configuration, and what they keep."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kartrl.config import Optimizer

# torch's, but for those that need more than one gradient (LBFGS), sparse ones (SparseAdam), matrices alone (Muon), or a
# step to know what they keep (Adafactor, ASGD).
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adamax": torch.optim.Adamax,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "rprop": torch.optim.Rprop,
    "sgd": torch.optim.SGD,
}

FROM_ZERO = frozenset(OPTIMIZERS) - {"nadam", "rprop"}  # all that they keep begins with zeros


def make_optimizer(section: Optimizer, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer that `section` names, at its first learning rate, with those of the section's keys that it takes.

    torch's RMSprop adds epsilon outside the square root; with epsilon small beside the gradients' size, as here,
    that differs little from TensorFlow's, which the paper used.
    """
    keys: dict[str, Any] = {
        "lr": section.learning_rate.start,
        "alpha": section.decay,
        "rho": section.decay,
        "betas": (0.9, section.decay),
        "eps": section.epsilon,
        "momentum": section.momentum,
        "amsgrad": section.amsgrad,
        "centered": section.centered,
        "weight_decay": section.weight_decay,
    }
    maker = OPTIMIZERS[section.name]
    takes = inspect.signature(maker).parameters
    return maker(parameters, **{key: value for key, value in keys.items() if key in takes})


def state_shapes(section: Optimizer, parameters: Iterable[Tensor]) -> dict[str, torch.Size]:
    """What the optimizer keeps after a step, by "<number of the parameter>/<torch's name>"; takes no memory."""
    stand_ins = [nn.Parameter(torch.empty(parameter.shape, device="meta")) for parameter in parameters]
    optimizer = make_optimizer(section, stand_ins)
    for parameter in stand_ins:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    return {name: tensor.shape for name, tensor in get_state(optimizer).items()}


def get_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """All that the optimizer keeps, by "<number of the parameter>/<torch's name>"."""
    state = optimizer.state_dict()["state"]
    return {f"{index}/{name}": value for index, kept in state.items() for name, value in kept.items()}


def set_state(optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """What `get_state` gave; empty for an optimizer that has made no step."""
    hold_state(optimizer, {key: _like(_parameter(optimizer, key), value) for key, value in state.items()})


def hold_state(optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """As `set_state`, but the optimizer keeps these very tensors, which others may keep too."""
    optimizer.state.clear()
    for key, value in state.items():
        optimizer.state[_parameter(optimizer, key)][key.partition("/")[2]] = value


def first_state(section: Optimizer, parameters: Iterable[Tensor]) -> dict[str, Tensor]:
    """What an optimizer of `FROM_ZERO` keeps before its first step, as torch would make it then."""
    parameters = [*parameters]
    shapes = state_shapes(section, parameters)
    return {key: _like(parameters[int(key.partition("/")[0])], torch.zeros(shape)) for key, shape in shapes.items()}


def _parameter(optimizer: torch.optim.Optimizer, key: str) -> nn.Parameter:
    parameter: nn.Parameter = optimizer.param_groups[0]["params"][int(key.partition("/")[0])]
    return parameter


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """A copy as torch keeps it: in the parameter's layout and on its device, but for counts of steps and such."""
    return torch.empty_like(parameter, requires_grad=False).copy_(value) if value.dim() else value.clone()
