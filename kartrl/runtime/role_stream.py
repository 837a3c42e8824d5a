"""A role's own order of work on a GPU. Nothing else in the runtime orders work there; it has never run on one."""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor


class RoleStream:
    """Work that a role gives to its device while the stream is `current` is done in order, beside that of other roles.

    On a CPU work is done when it is given, and this does nothing.

    Args:
        device: of the role; all that it has been given until now is done first.
    """

    def __init__(self, device: torch.device) -> None:
        self.cuda: torch.cuda.Stream | None = None
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            self.cuda = torch.cuda.Stream(device)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Within it, the calling thread's work goes here."""
        if self.cuda is None:
            yield
        else:
            with torch.cuda.stream(self.cuda):
                yield

    def mark(self) -> torch.cuda.Event | None:
        """The end of what has been given so far; None where that is done."""
        return self.cuda.record_event() if self.cuda is not None else None

    def wait_for(self, mark: torch.cuda.Event | None) -> None:
        """What is given from now on begins after another stream's mark; the calling thread does not wait, on a GPU."""
        if mark is None:
            return
        if self.cuda is not None:
            self.cuda.wait_event(mark)
        else:  # a role on the CPU reads what is on a GPU
            mark.synchronize()

    def keep(self, tensors: Iterable[Tensor]) -> None:
        """Use these tensors of another stream here: when they are freed, their memory waits for what was given here."""
        if self.cuda is not None:
            for tensor in tensors:
                tensor.record_stream(self.cuda)

    def synchronize(self) -> None:
        """Wait until all that was given is done."""
        if self.cuda is not None:
            self.cuda.synchronize()
