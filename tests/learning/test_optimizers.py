"""Optimizers do what their names say, and what they keep goes with them; reward transforms."""

import math
import subprocess
import sys
from typing import get_args

import pytest
import torch
from commands import ROOT

from kartrl.algorithms.rewards import TRANSFORMS, make_transform
from kartrl.config import Optimizer
from kartrl.learning.optimizers import OPTIMIZERS, get_state, make_optimizer, set_state, state_shapes


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


def test_configured_optimizers_are_those_of_the_table():
    assert set(get_args(Optimizer.model_fields["name"].annotation)) == set(OPTIMIZERS)


SECTIONS = [
    Optimizer(name=name, momentum=momentum, weight_decay=weight_decay)
    for name in OPTIMIZERS
    for momentum in ((0.0, 0.5) if name in ("rmsprop", "sgd") else (0.0,))
    for weight_decay in (0.0, 0.1)
]
by_section = pytest.mark.parametrize(
    "section", SECTIONS, ids=lambda section: f"{section.name} {section.momentum} {section.weight_decay}"
)


def parameters():
    torch.manual_seed(0)
    shapes = ((3, 2), (3,), (4, 2, 3, 3))
    made = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    made[2].data = made[2].data.to(memory_format=torch.channels_last)
    return made


def step(optimizer, parameters, number):
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 0.3 * number - 1) * parameter.detach()
    optimizer.step()


@by_section
def test_optimizer_state_shapes_are_known_without_it(section):
    made = parameters()
    optimizer = make_optimizer(section, made)
    assert get_state(optimizer) == {}
    step(optimizer, made, 1)
    kept = {name: tensor.shape for name, tensor in get_state(optimizer).items()}
    assert state_shapes(section, made) == kept
    stand_ins = [torch.empty(parameter.shape, device="meta") for parameter in made]
    assert state_shapes(section, stand_ins) == kept
    assert (kept == {}) is (section.name == "sgd" and section.momentum == 0)


@by_section
def test_optimizer_continues_from_stored_state(section):
    ours, theirs = parameters(), parameters()
    one, other = make_optimizer(section, ours), make_optimizer(section, theirs)
    for number in range(3):
        step(one, ours, number)
    kept = {name: tensor.clone() for name, tensor in get_state(one).items()}
    with torch.no_grad():
        for parameter, value in zip(theirs, ours, strict=True):
            parameter.copy_(value)
    set_state(other, kept)
    for number in range(3, 6):
        step(one, ours, number)
        step(other, theirs, number)
    for parameter, value in zip(theirs, ours, strict=True):
        assert torch.equal(parameter, value)
    for name, tensor in get_state(one).items():
        assert torch.equal(get_state(other)[name], tensor)


def test_an_adapted_learning_rate_is_part_of_the_state():
    section, made = Optimizer(name="sgd", kl_target=0.01), parameters()
    one, other = make_optimizer(section, made), make_optimizer(section, made)
    one.param_groups[0]["rate_factor"].fill_(4)
    assert state_shapes(section, made) == {"rate_factor": ()}
    set_state(other, get_state(one))
    one.param_groups[0]["rate_factor"].fill_(5)
    assert other.param_groups[0]["rate_factor"] == 4
    set_state(other, {})
    assert other.param_groups[0]["rate_factor"] == 1


def test_without_a_state_an_optimizer_begins_anew():
    made = parameters()
    optimizer = make_optimizer(Optimizer(name="adam"), made)
    step(optimizer, made, 1)
    set_state(optimizer, {})
    assert get_state(optimizer) == {}


def test_reward_transforms():
    rewards = torch.tensor([-5.0, -0.5, 0.0, 0.5, 5.0], dtype=torch.float64)
    assert TRANSFORMS["none"](rewards).tolist() == rewards.tolist()
    assert TRANSFORMS["sign"](rewards).tolist() == [-1.0, -1.0, 0.0, 1.0, 1.0]
    assert make_transform("clip", 0.1)(rewards).tolist() == [-0.5, -0.05, 0.0, 0.05, 0.5]
    optimistic = [0.3 * min(math.tanh(r), 0.0) + 5 * max(math.tanh(r), 0.0) for r in rewards.tolist()]
    assert TRANSFORMS["optimistic"](rewards).tolist() == pytest.approx(optimistic)
    assert TRANSFORMS["clip"](rewards).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    expected = [0.3 * min(math.tanh(r), 0.0) + 0.5 * max(math.tanh(r), 0.0) for r in rewards.tolist()]
    assert TRANSFORMS["asymmetric"](rewards).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch(name):
    ours, theirs = parameters(), parameters()
    section = Optimizer(name=name)
    optimizer = make_optimizer(section, ours)
    reference = make_optimizer(section, theirs)
    del reference.step  # so that it is the class's own again
    for value in (2.0, -1.0, 3.0):
        step(optimizer, ours, value)
        step(reference, theirs, value)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert str(get_state(optimizer)) == str(get_state(reference))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_do_not_depend_on_the_memory_layout_of_gradients(name):
    """torch's fused optimizers on a CPU assume the parameters' layout; gradients summed over parts have their own."""
    ours, theirs = parameters(), parameters()
    optimizer, reference = (make_optimizer(Optimizer(name=name), made) for made in (ours, theirs))
    for _ in range(3):
        for one, other in zip(ours, theirs, strict=True):
            other.grad = torch.randn_like(other)
            one.grad = other.grad.clone(memory_format=torch.contiguous_format)
        optimizer.step()
        reference.step()
    assert ours[2].grad is not None
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(("name", "plain"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_fused_steps_are_those_of_torchs_plain_ones(name, plain):
    ours, theirs = parameters(), parameters()
    optimizer = make_optimizer(Optimizer(name=name, weight_decay=0.1), ours)
    assert optimizer.param_groups[0]["fused"]
    rest = {key: optimizer.param_groups[0][key] for key in ("lr", "betas", "eps", "weight_decay")}
    reference = plain(theirs, **rest, fused=False, foreach=False)
    for value in (2.0, -1.0, 3.0):
        step(optimizer, ours, value)
        step(reference, theirs, value)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_updates_and_checkpoints_do_not_load_the_compiler():
    code = (
        "import sys, torch\n"
        "from kartrl.config import Optimizer\n"
        "from kartrl.learning.optimizers import OPTIMIZERS, get_state, make_optimizer, state_shapes\n"
        "for name in OPTIMIZERS:\n"
        "    parameter = torch.nn.Parameter(torch.ones(3))\n"
        "    optimizer = make_optimizer(Optimizer(name=name), [parameter])\n"
        "    optimizer.zero_grad()\n"
        "    parameter.sum().backward()\n"
        "    optimizer.step()\n"
        "    get_state(optimizer)\n"
        "    state_shapes(Optimizer(name=name), [parameter])\n"
        "from pathlib import Path\n"
        "from kartrl.learning import checkpoint\n"
        "checkpoint.load(Path(sys.argv[1]))\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, ROOT / "kartrl/kart/weights/kart.pt"], check=True, timeout=200)
