"""Features of observations, computed with the learner's newest weights."""

import numpy as np
import torch

from kartrl.acting.published_weights import PublishedWeights
from kartrl.hardware.streams import RoleStream
from kartrl.models import ActorCritic, for_inference

PART = 256  # observations that go through the network at once


class Embedding:
    """The policy encoder's features of observations, from a copy of the network that tracks the published weights.

    One thread at a time may call it.
    """

    def __init__(self, network: ActorCritic, weights: PublishedWeights) -> None:
        self._network, self._weights = for_inference(network), weights
        self._device = next(iter(network.parameters())).device
        self._version, self._stream = -1, RoleStream(self._device)

    @torch.no_grad()
    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Observations [N, ...] -> float32 [N, F]."""
        network, parts = self._network, torch.from_numpy(np.ascontiguousarray(observation)).split(PART)
        with self._stream.current():
            self._version = self._weights.fetch(network, self._version, self._stream)
            return np.concatenate([network.features(part.to(self._device)).float().cpu().numpy() for part in parts])
