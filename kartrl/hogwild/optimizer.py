"""Lock-free updates of parameters shared by several processes (Hogwild!, Recht et al. 2011, arXiv:1106.5730)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from kartrl.models import ActorCritic


class HogwildOptimizer(torch.optim.Optimizer):
    """Steps shared parameters with the gradients of a worker's own network, which is then updated to a copy of them.

    Each step is torch's own, on tensors that other workers write at the same time, including moments and the step count
    if these are shared (A3C, arXiv:1602.01783, section 4, "Shared RMSProp"). Of simultaneous writes one may be lost.
    RMSprop and Adam add epsilon as torch does: Adam to the root of the corrected moment, where A3G corrects afterwards,
    so the first steps differ.

    Args:
        own: the network that gradients are computed with, on any device.
        shared: the same network on the CPU, its tensors in shared memory.
        optimizer: of the shared network's parameters.
    """

    def __init__(self, own: nn.Module | ActorCritic, shared: nn.Module, optimizer: torch.optim.Optimizer) -> None:
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
        self._optimizer.zero_grad(set_to_none=True)  # these are the own network's gradients: not to be applied twice
        self.fetch()

    @torch.no_grad()
    def fetch(self) -> None:
        """Copy the current values of the shared tensors into the own network."""
        for own, shared in self._all:
            own.copy_(shared)
