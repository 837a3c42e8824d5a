"""Steps on shared parameters are torch's own steps, whoever of several makes them."""

import pytest
import torch
from gymnasium.spaces import Discrete

from kartrl.config import Model, Optimizer
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.hardware.shared_tensors import SharedTensors
from kartrl.hogwild.optimizer import HogwildOptimizer
from kartrl.learning.optimizers import first_state, get_state, hold_state, make_optimizer
from kartrl.models import ActorCritic

SECTIONS = {
    "adam": {},
    "adam, amsgrad": {"amsgrad": True, "weight_decay": 0.1},
    "rmsprop": {},
    "rmsprop, centered": {"centered": True},
    "rmsprop, momentum": {"momentum": 0.9},
    "sgd": {},
    "sgd, momentum": {"momentum": 0.9, "weight_decay": 0.1},
    "adamw": {},
}
RATES = (0.01, 0.02, 0.005, 0.01)


def section_of(name):
    return Optimizer(name=name.partition(",")[0], epsilon=1e-3, decay=0.95, **SECTIONS[name])


def network_of(seed=1):
    torch.manual_seed(seed)
    return ActorCritic(
        Model(hidden_size=8, channels=(4,), kernels=(3,), strides=(2,)), plain(9, 9, 2), ActionSpec.of(Discrete(3))
    )


def worker_of(section, tensors, statistics):
    """A network of its own with an optimizer on the shared tensors, as a worker has."""
    own, shared = network_of(seed=2), network_of(seed=3)
    tensors.take_place(shared)
    inner = make_optimizer(section, shared.parameters())
    hold_state(inner, statistics)
    optimizer = HogwildOptimizer(own, shared, inner)
    optimizer.fetch()
    return own, optimizer


def set_gradients(network, seed):
    torch.manual_seed(seed)
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)


@pytest.mark.parametrize("name", SECTIONS)
def test_alternating_worker_steps_equal_torch_bit_for_bit(name):
    section, single = section_of(name), network_of()
    tensors = SharedTensors(single.state_dict())
    statistics = SharedTensors(first_state(section, single.parameters()))
    plain = make_optimizer(section, single.parameters())
    workers = [worker_of(section, tensors, statistics) for _ in range(2)]
    for number, rate in enumerate(RATES):
        own, optimizer = workers[number % 2]
        optimizer.param_groups[0]["lr"] = plain.param_groups[0]["lr"] = rate
        set_gradients(single, number)
        set_gradients(own, number)
        plain.step()
        optimizer.step()
        for ours, expected in zip(own.parameters(), single.parameters(), strict=True):
            assert torch.equal(ours, expected), "one's own network is a copy after each step"
    kept = get_state(plain)
    assert kept.keys() == statistics.keys()
    for key, value in kept.items():
        assert torch.equal(statistics[key], value), key
        assert statistics[key].stride() == value.stride(), "in the parameter's layout"


def test_a_gradient_is_not_stepped_with_twice():
    section, first = section_of("sgd"), network_of()
    tensors = SharedTensors(first.state_dict())
    own, optimizer = worker_of(section, tensors, {})
    optimizer.param_groups[0]["lr"] = 0.1
    set_gradients(own, 1)
    optimizer.step()
    after = [parameter.clone() for parameter in own.parameters()]
    optimizer.zero_grad(set_to_none=True)
    optimizer.step()
    for parameter, before in zip(own.parameters(), after, strict=True):
        assert torch.equal(parameter, before)
