"""Optimizers and learning-rate schedules, by their names in the configuration."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

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


def state_names(section: Optimizer) -> set[str]:
    """What the optimizer keeps of each parameter, by torch's names: of its shape, but for "step", which is a scalar."""
    names = {"rmsprop": {"step", "square_avg"}, "adam": {"step", "exp_avg", "exp_avg_sq"}, "sgd": set[str]()}[
        section.name
    ]
    return names | ({"momentum_buffer"} if section.momentum and section.name != "adam" else set())


def learning_rate(section: Optimizer, fraction: float) -> float:
    """The step size when this fraction (0 to 1) of the run's agent steps has been made."""
    power = {"constant": 0.0, "linear": 1.0, "polynomial": 2.0}[section.schedule]
    left = (1.0 - min(max(fraction, 0.0), 1.0)) ** power
    return section.learning_rate_end + (section.learning_rate - section.learning_rate_end) * left
