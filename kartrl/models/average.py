"""A network that is a moving average of another."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from kartrl.models import ActorCritic


class AverageNetwork:
    """An exponential moving average of a network's weights; no gradient flows through it.

    It starts as a copy of the network at the first call of `of`, or with a loaded state. The network's buffers, such as
    statistics of observations, are copied, not averaged.
    """

    def __init__(self) -> None:
        self._network: ActorCritic | None = None
        self._loaded: Mapping[str, Tensor] = {}

    @torch.no_grad()
    def of(self, network: ActorCritic) -> ActorCritic:
        """The average network; the first call creates it."""
        if self._network is None:
            self._network = copy.deepcopy(network)
            for parameter in self._network.parameters():
                parameter.requires_grad_(False)
            if self._loaded:
                self._network.load_state_dict(dict(self._loaded))
        return self._network

    @torch.no_grad()
    def follow(self, network: ActorCritic, decay: float) -> None:
        """w <- decay w + (1 - decay) w'; nothing before the first call of `of`."""
        if self._network is None:
            return
        averages: list[Tensor] = list(self._network.parameters())
        torch._foreach_lerp_(averages, list(network.parameters()), 1 - decay)
        for kept, buffer in zip(self._network.buffers(), network.buffers(), strict=True):
            kept.copy_(buffer)

    def state_dict(self) -> dict[str, Tensor]:
        """State of the average network; empty before it exists."""
        return dict(self._loaded) if self._network is None else self._network.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Start with the result of `state_dict`."""
        self._network, self._loaded = None, state
