"""Lock-free updates of parameters that several processes share (Hogwild!, Recht et al. 2011, arXiv:1106.5730)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from kartrl.models import Network


class HogwildOptimizer(torch.optim.Optimizer):
    """Steps on shared parameters, with the gradients of a network of one's own, which then becomes a copy of them.

    Each step is torch's own, on tensors that others write at the same time: moments and the count of steps too, where
    these are shared (A3C, arXiv:1602.01783, section 4, "Shared RMSProp"). What two of them write at once may be lost.
    RMSprop and Adam add epsilon as torch does: Adam to the root of the corrected moment, where A3G corrects afterwards,
    so that the first steps differ.

    Args:
        own: the network that gradients are computed with, on any device.
        shared: the same network on the CPU, its tensors in shared memory.
        optimizer: of the shared network's parameters.
    """

    def __init__(self, own: nn.Module | Network, shared: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(own.parameters(), {})
        self._own, self._shared = [*own.parameters()], [*shared.parameters()]
        self._all = [*zip((*self._own, *own.buffers()), (*self._shared, *shared.buffers()), strict=True)]
        self._optimizer = optimizer

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step on the shared parameters, at the learning rate in `param_groups`, then `fetch`."""
        assert closure is None
        for ours, theirs in zip(self.param_groups, self._optimizer.param_groups, strict=True):
            theirs["lr"] = ours["lr"]
        for own, shared in zip(self._own, self._shared, strict=True):
            shared.grad = None if own.grad is None else own.grad.to(shared.device)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)  # they are the network's own, and must not be stepped with twice
        self.fetch()

    @torch.no_grad()
    def fetch(self) -> None:
        """Bring one's own network to the shared tensors' values of this moment."""
        for own, shared in self._all:
            own.copy_(shared)
