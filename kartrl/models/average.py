"""A network that follows another one."""

import copy

import torch
from torch import Tensor

from kartrl.models import Network


class AverageNetwork:
    """An exponential average of a network's weights, which begins as the network is; no gradient flows through it.

    What the network keeps beside its weights, such as statistics of observations, is taken over as it is.
    """

    def __init__(self, network: Network) -> None:
        with torch.no_grad():  # as in `for_inference`
            self.network: Network = copy.deepcopy(network)
        for parameter in self.network.parameters():
            parameter.requires_grad_(False)

    @torch.no_grad()
    def follow(self, network: Network, decay: float) -> None:
        """w <- decay w + (1 - decay) w'."""
        averages: list[Tensor] = list(self.network.parameters())
        torch._foreach_lerp_(averages, list(network.parameters()), 1 - decay)
        for kept, buffer in zip(self.network.buffers(), network.buffers(), strict=True):
            kept.copy_(buffer)
