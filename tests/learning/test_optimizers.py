"""Optimizers, schedules and reward transforms do what their names say."""

import math

import pytest
import torch

from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.config import Optimizer
from kartrl.learning.optimizers import learning_rate, make_optimizer


def descend(section, gradients):
    """A parameter of value 1 after these gradients."""
    parameter = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    optimizer = make_optimizer(section, [parameter])
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    return parameter.item()


def test_rmsprop():
    section = Optimizer(name="rmsprop", learning_rate=0.1, decay=0.9, epsilon=0.01, momentum=0.5)
    expected, square, velocity = 1.0, 0.0, 0.0
    for gradient in (2.0, -1.0, 3.0):
        square = 0.9 * square + 0.1 * gradient**2
        velocity = 0.5 * velocity + gradient / (math.sqrt(square) + 0.01)
        expected -= 0.1 * velocity
    assert descend(section, (2.0, -1.0, 3.0)) == pytest.approx(expected)


def test_adam():
    section = Optimizer(name="adam", learning_rate=0.1, decay=0.99, epsilon=0.01)
    expected, mean, square = 1.0, 0.0, 0.0
    for step, gradient in enumerate((2.0, -1.0, 3.0), 1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        expected -= 0.1 * (mean / (1 - 0.9**step)) / (math.sqrt(square / (1 - 0.99**step)) + 0.01)
    assert descend(section, (2.0, -1.0, 3.0)) == pytest.approx(expected)


def test_sgd_with_momentum_and_weight_decay():
    section = Optimizer(name="sgd", learning_rate=0.1, momentum=0.5, weight_decay=0.2)
    expected, velocity = 1.0, 0.0
    for gradient in (2.0, -1.0):
        velocity = 0.5 * velocity + gradient + 0.2 * expected
        expected -= 0.1 * velocity
    assert descend(section, (2.0, -1.0)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("constant", (1.0, 1.0, 1.0)), ("linear", (1.0, 0.55, 0.1)), ("polynomial", (1.0, 0.1 + 0.9 / 4, 0.1))],
)
def test_schedules(schedule, expected):
    section = Optimizer(learning_rate=1.0, learning_rate_end=0.1, schedule=schedule)
    assert [learning_rate(section, fraction) for fraction in (0.0, 0.5, 1.0)] == pytest.approx(expected)
    assert learning_rate(section, 2.0) == pytest.approx(expected[2])


def test_reward_transforms():
    rewards = torch.tensor([-5.0, -0.5, 0.0, 0.5, 5.0], dtype=torch.float64)
    assert TRANSFORMS["none"](rewards).tolist() == rewards.tolist()
    assert TRANSFORMS["clip"](rewards).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    expected = [0.3 * min(math.tanh(r), 0.0) + 0.5 * max(math.tanh(r), 0.0) for r in rewards.tolist()]
    assert TRANSFORMS["asymmetric"](rewards).tolist() == pytest.approx(expected)
