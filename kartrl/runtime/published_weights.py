"""Published weights: how the trainer hands its network to the predictors."""

import threading

import torch
from torch import Tensor

from kartrl.models import Network
from kartrl.runtime.role_stream import RoleStream

ON_CPU = RoleStream(torch.device("cpu"))


def published(network: Network) -> list[Tensor]:
    """What a predictor needs of a network: its weights, and the statistics that it normalises observations by."""
    return [tensor for tensor in (*network.parameters(), *network.buffers()) if tensor.is_floating_point()]


class PublishedWeights:
    """One flat copy of the weights with a version number.

    The trainer writes it after an update, and each predictor copies it into a network of its own when the version
    changed; both hold the lock only for one copy, and no forward pass ever reads what an optimizer writes. On a GPU
    they hold it only while they give the copy to their streams, which wait for each other.

    Args:
        network: of the trainer.
        stream: in which it is trained.
    """

    def __init__(self, network: Network, stream: RoleStream = ON_CPU) -> None:
        self._lock, self._stream = threading.Lock(), stream
        self._written: torch.cuda.Event | None = None
        self._read: list[torch.cuda.Event | None] = []  # by predictors, since then
        with torch.no_grad():
            self._source = published(network)  # once: a scripted module takes its time to list them
            self._flat = torch.cat([tensor.flatten() for tensor in self._source])
        self.version = 0

    def publish(self) -> None:
        """Copy the network's weights and raise the version by one; the trainer's stream is current."""
        with self._lock, torch.no_grad():
            for mark in self._read:
                self._stream.wait_for(mark)
            torch.cat([tensor.flatten() for tensor in self._source], out=self._flat)
            self._written, self._read = self._stream.mark(), []
            self.version += 1

    @torch.no_grad()
    def relative_change(self) -> float:
        """|w' - w| / |w|, of the network's weights w' against the published ones w."""
        new = torch.cat([tensor.flatten() for tensor in self._source])
        return float((new - self._flat).norm() / self._flat.norm().clamp(min=1e-12))

    def fetch(self, network: Network, version: int, stream: RoleStream = ON_CPU) -> int:
        """Bring `network`, which may be of another precision, from `version` to the newest one, which is returned.

        Args:
            stream: in which the network predicts; it is current.
        """
        if version == self.version:
            return version
        with self._lock, torch.no_grad():
            stream.wait_for(self._written)
            tensors = published(network)
            pieces = self._flat.split([tensor.numel() for tensor in tensors])
            for tensor, piece in zip(tensors, pieces, strict=True):
                tensor.copy_(piece.view_as(tensor))
            self._read.append(stream.mark())
            return self.version
