"""Weights that other processes may copy at any time, without a lock."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kartrl.acting.shared_tensors import SharedTensors


class SharedWeights:
    """The newest weights and their version, in two buffers of shared memory, of which each write takes the other.

    A copy is of one version unless two writes begin while it is made, and is then made again. No process waits for
    another, so one that is killed at any instant holds up no other.

    Args:
        flat: the weights, float32 [n].
        version: their version.
    """

    def __init__(self, flat: Tensor, version: int) -> None:
        self._tensors = SharedTensors(
            {
                "weights": torch.stack([flat, flat]),
                "version": torch.tensor([version, version]),  # of each buffer
                "begun": torch.zeros(1, dtype=torch.int64),  # writes
                "finished": torch.zeros(1, dtype=torch.int64),
            }
        )

    def write(self, flat: Tensor, version: int) -> None:
        """Store newer weights, float32 [n]; by one thread at a time."""
        number = int(self._tensors["begun"]) + 1
        self._tensors["begun"].fill_(number)
        self._tensors["weights"][number % 2].copy_(flat)
        self._tensors["version"][number % 2] = version
        self._tensors["finished"].fill_(number)

    def fetch(self, tensors: Sequence[Tensor], version: int | None) -> int:
        """Update a network's `published` tensors from `version` to the newest one, and return that.

        Args:
            version: None if they have never been updated.
        """
        while True:
            number = int(self._tensors["finished"])
            newest = int(self._tensors["version"][number % 2])
            if newest == version:
                return version
            spread(self._tensors["weights"][number % 2], tensors)
            if int(self._tensors["begun"]) < number + 2:  # otherwise this buffer was being written again
                return newest


@torch.no_grad()
def spread(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy flat weights [n] into a network's tensors, which may have another precision."""
    for tensor, piece in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(piece.view_as(tensor))
