"""Published weights: how the trainer hands its network to the predictors."""

import threading
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from kartrl.acting.shared_weights import SharedWeights
from kartrl.hardware.streams import RoleStream
from kartrl.models import ActorCritic

ON_CPU = RoleStream(torch.device("cpu"))


def published_by_name(network: ActorCritic) -> dict[str, Tensor]:
    """The tensors a predictor needs: a network's weights, and the statistics with which it normalises observations."""
    tensors = (*network.named_parameters(), *network.named_buffers())
    return {name: tensor for name, tensor in tensors if tensor.is_floating_point()}


def published(network: ActorCritic) -> list[Tensor]:
    """The tensors of `published_by_name`."""
    return [*published_by_name(network).values()]


@torch.no_grad()
def spread(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy flat weights [n] into a network's tensors, which may have another precision."""
    for tensor, piece in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(piece.view_as(tensor))


class PublishedWeights:
    """One flat copy of the weights with a version number.

    The trainer writes it after each update, and each predictor copies it into its own network when the version has
    changed. Both hold the lock only for one copy, and no forward pass ever reads what an optimizer writes. On a GPU
    they hold it only while they enqueue the copy on their streams, which wait for each other.

    Args:
        stream: the stream on which it is trained.
        version: the initial version.
    """

    def __init__(self, network: ActorCritic, stream: RoleStream = ON_CPU, version: int = 0) -> None:
        self._lock, self._stream = threading.Lock(), stream
        self._written: torch.cuda.Event | None = None
        self._read: list[torch.cuda.Event | None] = []  # by predictors, since the last write
        with torch.no_grad():
            self._source = published(network)
            self._flat = torch.cat([tensor.flatten() for tensor in self._source])
        self.version = version
        self._shared: SharedWeights | None = None

    def share(self) -> SharedWeights:
        """Publish to other processes too, from now on; the network must be on the CPU."""
        self._shared = SharedWeights(self._flat.numpy(), self.version)
        return self._shared

    def publish(self) -> None:
        """Copy the network's weights and increment the version; the trainer's stream must be current."""
        with self._lock, torch.no_grad():
            self._wait_for_readers()
            torch.cat([tensor.flatten() for tensor in self._source], out=self._flat)
            self._set_version(self.version + 1)

    def flat(self) -> tuple[np.ndarray, int]:
        """A copy of the newest weights, float32 [n] on the CPU, and their version."""
        with self._lock, torch.no_grad(), self._stream.current():
            return self._flat.detach().to("cpu", copy=True).numpy(), self.version

    def take(self, flat: np.ndarray, version: int) -> None:
        """Publish weights from another machine, as returned by `flat` there, unless those here are as new."""
        with self._lock, torch.no_grad(), self._stream.current():
            if version > self.version:
                self._wait_for_readers()
                self._flat.copy_(torch.tensor(flat))
                self._set_version(version)

    def _wait_for_readers(self) -> None:
        """Call before writing the copy; the lock must be held."""
        for mark in self._read:
            self._stream.wait_for(mark)

    def _set_version(self, version: int) -> None:
        """Call after writing the copy; the lock must be held."""
        self._written, self._read = self._stream.mark(), []
        if self._shared is not None:
            self._shared.write(self._flat.numpy(), version)
        self.version = version

    @torch.no_grad()
    def relative_change(self) -> float:
        """|w' - w| / |w|, of the network's weights w' against the published ones w."""
        new = torch.cat([tensor.flatten() for tensor in self._source])
        return float((new - self._flat).norm() / self._flat.norm().clamp(min=1e-12))

    def fetch(self, network: ActorCritic, version: int, stream: RoleStream = ON_CPU) -> int:
        """Update `network`, which may have another precision, from `version` to the newest one, and return that.

        Args:
            stream: the stream on which the network predicts; must be current.
        """
        if version == self.version:
            return version
        with self._lock, torch.no_grad():
            stream.wait_for(self._written)
            spread(self._flat, published(network))
            self._read.append(stream.mark())
            return self.version
