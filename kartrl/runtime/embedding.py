"""Features of observations, as the learner's network sees them now."""

import numpy as np
import torch

from kartrl.models import Network, for_inference
from kartrl.runtime.published_weights import PublishedWeights

PART = 256  # observations that go through the network at once


class Embedding:
    """What the policy's encoder makes of observations, by a copy of the network that follows the published weights.

    One thread at a time may call it.
    """

    def __init__(self, network: Network, weights: PublishedWeights) -> None:
        self._network, self._weights = for_inference(network), weights
        self._device = next(iter(network.parameters())).device
        self._version = -1

    @torch.no_grad()
    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Observations [N, ...] -> float32 [N, F]."""
        self._version = self._weights.fetch(self._network, self._version)
        parts = torch.from_numpy(np.ascontiguousarray(observation)).split(PART)
        return np.concatenate([self._network.features(part.to(self._device)).float().cpu().numpy() for part in parts])
