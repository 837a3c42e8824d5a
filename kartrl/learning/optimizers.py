"""Optimizers, by their names in the configuration, and their state."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from kartrl.config import Optimizer

AnyTensor = TypeVar("AnyTensor", bound=Tensor)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}

# PyTorch's optimizers load its compiler, which takes a second, only to be left out of it. Nothing is compiled here, so
# these methods, and the steps in `make_optimizer`, run without it.
for _name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
    _method = inspect.unwrap(getattr(torch.optim.Optimizer, _name))
    setattr(_method, "__dynamo_disable", _method)

FACTOR = "rate_factor"  # factor of an adapted learning rate, kept in the optimizer's parameter group
CHANGE = 1.5  # by which an update changes it
TOLERANCE = 2.0  # no change while the KL is within this factor of the target
FARTHEST = 30.0  # largest factor, and its inverse the smallest
FUSED = frozenset({"adam", "adamw", "sgd"})  # in one pass over the parameters, two to six times as fast on a CPU
FUSING = frozenset({"cpu", "cuda"})  # devices that can


def make_optimizer(section: Optimizer, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Make the optimizer that `section` names, at its initial learning rate, with the section's keys that it accepts.

    torch's RMSprop adds epsilon outside the square root; with an epsilon that is small compared to the gradients, as
    here, this differs little from TensorFlow's, which the paper used.
    """
    parameters = [*parameters]
    fused = section.name in FUSED and all(parameter.device.type in FUSING for parameter in parameters)
    keys: dict[str, Any] = {
        "lr": section.learning_rate.start,
        "alpha": section.decay,
        "betas": (0.9, section.decay),
        "eps": section.epsilon,
        "momentum": section.momentum,
        "amsgrad": section.amsgrad,
        "centered": section.centered,
        "weight_decay": section.weight_decay,
        "fused": fused or None,
    }
    maker = OPTIMIZERS[section.name]
    takes = inspect.signature(maker).parameters
    optimizer = maker(parameters, **{key: value for key, value in keys.items() if key in takes})
    step = functools.partial(inspect.unwrap(type(optimizer).step), optimizer)
    if fused:
        step = functools.partial(_step_in_layout, parameters, step)
    optimizer.step = torch.no_grad()(step)  # type: ignore[method-assign]
    if section.kl_target:
        optimizer.param_groups[0][FACTOR] = torch.ones(())
    return optimizer


def adapt(optimizer: torch.optim.Optimizer, target: float, divergences: Tensor) -> None:
    """Change the learning rate's factor after an update that moved the policy too far or too little.

    As rl_games and RSL-RL do for PPO: updates stay about equally large.

    Args:
        optimizer: made for a `kl_target`.
        target: mean KL(before || after) of an update.
        divergences: KL of this update as measured by each learner, float32 [learners]; NaN if it had no valid step.
    """
    divergence = float(divergences.nanmean())  # NaN, which changes nothing, if no learner had any
    factor: Tensor = optimizer.param_groups[0][FACTOR]
    if divergence > TOLERANCE * target:
        factor /= CHANGE
    elif divergence < target / TOLERANCE:
        factor *= CHANGE
    factor.clamp_(1 / FARTHEST, FARTHEST)


def in_layout(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """A gradient, if any, in the memory layout of its parameter, which torch's fused steps assume unchecked."""
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _step_in_layout(parameters: Sequence[nn.Parameter], step: Callable[[], None]) -> None:
    """A step with all gradients `in_layout`."""
    for parameter in parameters:
        parameter.grad = in_layout(parameter.grad, parameter)
    step()


def state_shapes(section: Optimizer, parameters: Iterable[Tensor]) -> dict[str, torch.Size]:
    """Shapes of the optimizer's state after a step, by "<index of the parameter>/<torch's name>".

    Takes no memory.
    """
    parameters = [*parameters]
    shapes = [(1,) * parameter.dim() for parameter in parameters]
    stand_ins = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    optimizer = make_optimizer(section, stand_ins)
    for parameter in stand_ins:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return {
        name: tensor.shape if not tensor.dim() else _parameter(parameters, name).shape
        for name, tensor in get_state(optimizer).items()
    }


def get_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by "<index of the parameter>/<torch's name>", and its `FACTOR` if it has one."""
    state, (group,) = optimizer.state_dict()["state"], optimizer.param_groups
    factor = {FACTOR: group[FACTOR]} if FACTOR in group else {}
    return factor | {f"{index}/{name}": value for index, kept in state.items() for name, value in kept.items()}


def set_state(optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Restore the result of `get_state`, which is empty for an optimizer that has made no step."""
    if FACTOR in optimizer.param_groups[0]:
        optimizer.param_groups[0][FACTOR].copy_(state.get(FACTOR, torch.ones(())))
    kept, parameters = (
        {key: value for key, value in state.items() if key != FACTOR},
        optimizer.param_groups[0]["params"],
    )
    fused = bool(optimizer.param_groups[0].get("fused"))
    hold_state(optimizer, {key: _like(_parameter(parameters, key), value, fused) for key, value in kept.items()})


def hold_state(optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """As `set_state`, but without copying: the optimizer uses these tensors, which may be shared."""
    optimizer.state.clear()
    for key, value in state.items():
        optimizer.state[_parameter(optimizer.param_groups[0]["params"], key)][key.partition("/")[2]] = value


def first_state(section: Optimizer, parameters: Iterable[Tensor]) -> dict[str, Tensor]:
    """The state of an optimizer before its first step, as torch would initialise it then: zeros."""
    parameters = [*parameters]
    shapes = state_shapes(section, parameters)
    return {key: _like(_parameter(parameters, key), torch.zeros(shape), False) for key, shape in shapes.items()}


def _parameter(parameters: Sequence[AnyTensor], key: str) -> AnyTensor:
    """The parameter to which this key of `get_state` belongs."""
    return parameters[int(key.partition("/")[0])]


def _like(parameter: Tensor, value: Tensor, fused: bool) -> Tensor:
    """A copy as torch keeps it: in the parameter's layout and on its device.

    Scalars such as step counts are on the device only if the optimizer is fused.
    """
    if value.dim() and value.shape == parameter.shape:
        return torch.empty_like(parameter, requires_grad=False).copy_(value)
    return value.to(parameter.device if value.dim() or fused else value.device, copy=True)
