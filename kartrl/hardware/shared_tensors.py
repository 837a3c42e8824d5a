"""Tensors in memory that processes share."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kartrl.processes.shared_memory import SharedMemory

LINE = 64  # bytes of a cache line, to which tensors are aligned


class SharedTensors(dict[str, Tensor]):
    """Copies of CPU tensors, by name, in one piece of memory, shared with processes that are given this at their start.

    Reading and writing them takes no lock, so a process that is killed can leave none held.

    Args:
        tensors: of any shape and layout; layouts are kept.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._layout: list[tuple[str, torch.Size, tuple[int, ...], torch.dtype, int]] = []
        size = 0
        for name, tensor in tensors.items():
            self._layout.append((name, tensor.shape, tensor.stride(), tensor.dtype, size))
            size += -(-tensor.nbytes // LINE) * LINE
        self._memory = SharedMemory(max(size, LINE))
        self._map()
        for name, tensor in tensors.items():
            self[name].copy_(tensor)

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (self._memory, self._layout)

    def _map(self) -> None:
        for name, shape, stride, dtype, offset in self._layout:
            flat = torch.frombuffer(self._memory.view, dtype=dtype, count=shape.numel(), offset=offset)
            self[name] = flat.as_strided(shape, stride)

    def take_place(self, module: nn.Module) -> None:
        """Make these tensors the parameters and buffers of a module on the CPU, by their names in its state."""
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            tensor.data = self[name]


def _attach(memory: SharedMemory, layout: list[Any]) -> SharedTensors:
    attached = SharedTensors.__new__(SharedTensors)
    attached._memory, attached._layout = memory, layout
    attached._map()
    return attached
