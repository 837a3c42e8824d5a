"""What tests of losses share: a batch with outputs of the heads, and what must hold for every loss."""

from typing import Any

import torch
from trajectories import random_trajectory

from kartrl.algorithms.algorithm import Batch, Loss
from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.config.schedule import constant
from kartrl.envs.spec import ActionSpec
from kartrl.models import Output, make_distribution

GAMMA = 0.875  # exact in float32, in which discounts are


class HeadCase:
    """A batch, and outputs of a policy's and a value's heads, with gradients; `network`, if any, prepares the batch."""

    network: Any = None

    def __init__(self, algorithm: Any, section: Any, action: ActionSpec, seed: int, **shape: int) -> None:
        self.action, self.section, self.distribution = action, section, make_distribution(action)
        self.algorithm = algorithm(section, constant(GAMMA), TRANSFORMS["clip"], self.distribution)
        self.trajectory = random_trajectory(action, seed, **shape)
        self.steps = int(self.trajectory.valid.sum())
        torch.manual_seed(seed)
        steps, size = self.trajectory.first.shape
        self.head = torch.randn(steps, size, self.distribution.parameter_size, dtype=torch.float64) * 0.5
        self.value = torch.randn(steps, size, dtype=torch.float64).requires_grad_()
        self.head.requires_grad_()

    def prepare(self) -> Batch:
        with torch.no_grad():
            batch = self.algorithm.prepare(self.network, self.trajectory, self.steps)
        assert isinstance(batch, Batch)
        return batch

    def loss(self, part: slice = slice(None)) -> Loss:
        output = Output(self.distribution.normalise(self.head[:, part]), self.value[:, part])
        return self.algorithm.loss(output, self.prepare().unrolls(part))


def assert_invalid_steps_do_not_count(case: HeadCase) -> None:
    """Steps that are not valid, and the last, have no gradient, and their rewards and ends no weight."""
    invalid = ~case.trajectory.valid
    assert invalid.any()
    loss = case.loss()
    loss.total.backward()
    for gradient in (case.head.grad, case.value.grad):
        assert torch.all(gradient[:-1][invalid] == 0)
        assert torch.all(gradient[-1] == 0)
    case.trajectory.reward[invalid] = 100.0
    case.trajectory.terminated[invalid] = True
    torch.testing.assert_close(case.loss().total, loss.total, rtol=0, atol=0)


def assert_parts_add_up(whole: HeadCase, parts: HeadCase) -> None:
    """The losses, terms and gradients of the parts of a batch are those of the whole: two of the same case."""
    loss = whole.loss()
    loss.total.backward()
    losses = [parts.loss(part) for part in (slice(0, 2), slice(2, 3), slice(3, 5))]
    for part in losses:
        part.total.backward()
    torch.testing.assert_close(sum(part.total for part in losses), loss.total)
    for name, term in loss.terms.items():
        torch.testing.assert_close(sum(part.terms[name] for part in losses), term)
    torch.testing.assert_close(parts.head.grad, whole.head.grad)
    torch.testing.assert_close(parts.value.grad, whole.value.grad)
