"""Tensors that processes share: the same memory, in any layout."""

import torch
from gymnasium.spaces import Discrete

from kartrl.envs.observation_spec import plain
from kartrl.hardware.shared_tensors import SharedTensors
from kartrl.processes.spawn import start_method

ADDED = 20_000


def add(tensors, worker, start):
    """Body of a process: adds to a count of its own and to one of all."""
    start.recv()
    for _ in range(ADDED):
        tensors["own"][worker] += 1
        tensors["all"] += 1


def test_shared_tensors_written_by_one_are_read_by_others():
    context = start_method()
    tensors = SharedTensors({"own": torch.zeros(2, dtype=torch.int64), "all": torch.zeros((), dtype=torch.int64)})
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    processes = [context.Process(target=add, args=(tensors, index, pipes[index][0])) for index in range(2)]
    for process in processes:
        process.start()
    for _, writer in pipes:
        writer.send(None)
    for process in processes:
        process.join(100)
    assert tensors["own"].tolist() == [ADDED, ADDED]
    assert 0 < tensors["all"].item() <= 2 * ADDED, "of two that write at once one may be lost"


def test_layouts_types_and_values_are_kept():
    weight = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    like = {"weight": weight, "bias": torch.randn(3), "count": torch.tensor(7), "flag": torch.tensor([True, False])}
    tensors = SharedTensors(like)
    assert tensors.keys() == like.keys()
    for name, tensor in like.items():
        assert torch.equal(tensors[name], tensor)
        assert (tensors[name].dtype, tensors[name].stride()) == (tensor.dtype, tensor.stride())
    tensors["bias"].zero_()
    assert like["bias"].all(), "a copy"


def test_a_network_whose_tensors_are_shared_computes_with_them():
    from kartrl.config import Model
    from kartrl.envs.spec import ActionSpec
    from kartrl.models import make_network

    torch.manual_seed(1)
    section = Model(hidden_size=8, normalise_observations=True)
    one, other = (make_network(section, plain(3), ActionSpec.of(Discrete(2))) for _ in range(2))
    tensors = SharedTensors(one.state_dict())
    for network in (one, other):
        tensors.take_place(network)
    arguments = torch.randn(5, 3), torch.zeros(5, dtype=torch.bool), one.initial_state(5)
    one.observe(torch.randn(9, 3) * 4 + 1)
    with torch.no_grad():
        next(iter(one.parameters())).mul_(2)
        assert torch.equal(one.step(*arguments)[1], other.step(*arguments)[1])
    (count,) = (tensor for name, tensor in tensors.items() if name.endswith("normaliser.count"))
    assert count.item() == 9
