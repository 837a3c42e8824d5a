"""Optimizers, by their names in the configuration, and what they keep."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from kartrl.config import Optimizer


def make_optimizer(section: Optimizer, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer that `section` names, at its first learning rate.

    torch's RMSprop adds epsilon outside the square root; with epsilon small beside the gradients' size, as here,
    that differs little from TensorFlow's, which the paper used.
    """
    makers: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "rmsprop": lambda: torch.optim.RMSprop(
            parameters,
            lr=section.learning_rate,
            alpha=section.decay,
            eps=section.epsilon,
            momentum=section.momentum,
            weight_decay=section.weight_decay,
        ),
        "adam": lambda: torch.optim.Adam(
            parameters,
            lr=section.learning_rate,
            betas=(0.9, section.decay),
            eps=section.epsilon,
            weight_decay=section.weight_decay,
        ),
        "sgd": lambda: torch.optim.SGD(
            parameters, lr=section.learning_rate, momentum=section.momentum, weight_decay=section.weight_decay
        ),
    }
    return makers[section.name]()


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
    optimizer.state.clear()
    for key, value in state.items():
        index, _, name = key.partition("/")
        parameter = optimizer.param_groups[0]["params"][int(index)]
        # As torch keeps it: in the parameter's layout and on its device, but for the count of steps.
        kept = value.clone() if name == "step" else torch.empty_like(parameter, requires_grad=False).copy_(value)
        optimizer.state[parameter][name] = kept
