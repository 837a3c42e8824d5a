"""A role's own CUDA stream. Nothing else orders work on a GPU."""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor


class RoleStream:
    """Work that a role enqueues while the stream is `current` runs in order, concurrently with that of other roles.

    On a CPU, work is done synchronously, and this does nothing.

    Args:
        device: the role's device; all work enqueued on it so far is completed first.
    """

    def __init__(self, device: torch.device) -> None:
        self.cuda: torch.cuda.Stream | None = None
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            self.cuda = torch.cuda.Stream(device)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Context manager: the calling thread's work goes to this stream."""
        if self.cuda is None:
            yield
        else:
            with torch.cuda.stream(self.cuda):
                yield

    def mark(self) -> torch.cuda.Event | None:
        """The end of what has been enqueued so far; None on a CPU, where it is done."""
        return self.cuda.record_event() if self.cuda is not None else None

    def wait_for(self, mark: torch.cuda.Event | None) -> None:
        """Start work enqueued from now on after another stream's mark; on a GPU, the calling thread does not wait."""
        if mark is None:
            return
        if self.cuda is not None:
            self.cuda.wait_event(mark)
        else:  # a role on the CPU reads data on a GPU
            mark.synchronize()

    def keep(self, tensors: Iterable[Tensor]) -> None:
        """Use another stream's tensors here: their memory, once freed, is not reused before the work here is done."""
        if self.cuda is not None:
            for tensor in tensors:
                tensor.record_stream(self.cuda)

    def synchronize(self) -> None:
        """Wait until all enqueued work is done."""
        if self.cuda is not None:
            self.cuda.synchronize()
