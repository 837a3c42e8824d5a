"""Communication between several learners, each with its own batch, so that an update is made from all batches."""

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import psutil
import torch
from torch import Tensor, distributed

LOOPBACK = "127.0.0.1"
TIMEOUT = timedelta(days=1)  # the server notices a learner that ends or hangs; long batches are not a fault
Value = TypeVar("Value")


class LearnerLost(Exception):
    """Another learner has ended or cannot be reached."""


class GradientReducer(Protocol):
    """Connects a `Learner` with those of other processes; all of them make the same calls in the same order.

    Attributes:
        rank: of this learner; rank 0 saves and reports.
        lost: why the others can no longer be reached, or None.
    """

    rank: int
    lost: str | None

    def gather(self, rows: Tensor) -> Tensor:
        """Concatenate the rows [n, ...] of all learners in the order of their ranks; n may differ.

        Raises:
            LearnerLost: one of them has ended.
        """

    def reduce(self, parameters: Iterable[Tensor], loss: Tensor, steps: Tensor) -> Tensor:
        """Average the gradients over all learners, weighted by their steps, as if from one batch.

        If a gradient or loss of one learner is not finite, it is not finite for all of them.

        Args:
            loss: float scalar.
            steps: int scalar, number of valid steps over which loss and gradients are means.

        Returns:
            The mean loss.

        Raises:
            LearnerLost: one of them has ended.
        """

    def share(self, value: Value) -> Value:
        """The first learner's value.

        Raises:
            LearnerLost: one of them has ended.
        """


class OneLearner:
    """A single learner; see `GradientReducer`."""

    rank = 0
    lost: str | None = None

    def gather(self, rows: Tensor) -> Tensor:
        return rows

    def reduce(self, parameters: Iterable[Tensor], loss: Tensor, steps: Tensor) -> Tensor:
        return loss

    def share(self, value: Value) -> Value:
        return value


class SeveralLearners:
    """Learners on one machine, over torch.distributed; they connect at the first call. See `GradientReducer`.

    Args:
        place: a file that does not exist yet, the same for all.
        device: of this learner's network: NCCL on a GPU, gloo over loopback sockets on a CPU.
    """

    lost: str | None = None

    def __init__(self, rank: int, number: int, place: Path, device: torch.device) -> None:
        self.rank, self._number, self._place = rank, number, place
        self._backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"

    def gather(self, rows: Tensor) -> Tensor:
        with self._together():
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self._number)]
            distributed.all_gather(sizes, torch.tensor([len(rows)]))
            padded = rows.new_zeros(int(max(sizes)), *rows.shape[1:])
            padded[: len(rows)] = rows
            pieces = [torch.empty_like(padded) for _ in sizes]
            distributed.all_gather(pieces, padded)
        return torch.cat([piece[: int(size)] for piece, size in zip(pieces, sizes, strict=True)])

    def reduce(self, parameters: Iterable[Tensor], loss: Tensor, steps: Tensor) -> Tensor:
        """See `GradientReducer`: one all-reduce of one tensor."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        parts = *(gradient.flatten() for gradient in gradients), loss[None], torch.ones_like(loss)[None]
        flat = torch.cat(parts) * steps
        with self._together():
            distributed.all_reduce(flat)
        flat /= flat[-1].clamp(min=1)
        pieces = flat[:-2].split([gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))
        return flat[-2]

    def share(self, value: Value) -> Value:
        values: list[Value | None] = [value if self.rank == 0 else None]
        with self._together():
            distributed.broadcast_object_list(values, device=torch.device("cpu"))
        shared = values[0]
        assert shared is not None
        return shared

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        try:
            if not distributed.is_initialized():
                interface = _loopback_interface()
                os.environ |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
                store = distributed.FileStore(str(self._place), self._number)
                distributed.init_process_group(
                    self._backend, store=store, rank=self.rank, world_size=self._number, timeout=TIMEOUT
                )
            yield
        except RuntimeError as error:  # torch has no more specific one for a lost connection
            self.lost = str(error).splitlines()[0]
            raise LearnerLost(self.lost) from error


def _loopback_interface() -> str:
    """The name of the network interface that only this machine can reach."""
    return next(
        name
        for name, addresses in psutil.net_if_addrs().items()
        if any(address.family == socket.AF_INET and address.address == LOOPBACK for address in addresses)
    )
