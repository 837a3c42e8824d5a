"""Published weights: how the trainer hands its network to the predictors."""

import threading

import torch
from torch import Tensor

from kartrl.models import Network


def published(network: Network) -> list[Tensor]:
    """What a predictor needs of a network: its weights, and the statistics that it normalises observations by."""
    return [tensor for tensor in (*network.parameters(), *network.buffers()) if tensor.is_floating_point()]


class PublishedWeights:
    """One flat copy of the weights with a version number.

    The trainer writes it after an update, and each predictor copies it into a network of its own when the version
    changed; both hold the lock only for one copy, and no forward pass ever reads what an optimizer writes.
    """

    def __init__(self, network: Network) -> None:
        self._lock = threading.Lock()
        with torch.no_grad():
            self._source = published(network)  # once: a scripted module takes its time to list them
            self._flat = torch.cat([tensor.flatten() for tensor in self._source])
        self._on_gpu = self._flat.is_cuda
        self.version = 0

    def publish(self) -> None:
        """Copy the network's weights and raise the version by one."""
        with self._lock, torch.no_grad():
            torch.cat([tensor.flatten() for tensor in self._source], out=self._flat)
            self._finish()
            self.version += 1

    @torch.no_grad()
    def relative_change(self) -> float:
        """|w' - w| / |w|, of the network's weights w' against the published ones w."""
        new = torch.cat([tensor.flatten() for tensor in self._source])
        return float((new - self._flat).norm() / self._flat.norm().clamp(min=1e-12))

    def fetch(self, network: Network, version: int) -> int:
        """Bring `network`, which may be of another precision, from `version` to the newest one, which is returned."""
        if version == self.version:
            return version
        with self._lock, torch.no_grad():
            tensors = published(network)
            pieces = self._flat.split([tensor.numel() for tensor in tensors])
            for tensor, piece in zip(tensors, pieces, strict=True):
                tensor.copy_(piece.view_as(tensor))
            self._finish()
            return self.version

    def _finish(self) -> None:
        """Threads have streams of their own on a GPU: the copy is to be over before the lock is given up."""
        if self._on_gpu:
            torch.cuda.current_stream().synchronize()
