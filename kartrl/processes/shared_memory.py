"""Memory that processes share."""

import mmap
import os
import tempfile
import weakref
from multiprocessing import reduction
from typing import Any


class SharedMemory:
    """Zeroed memory, shared with every process that is given it when it starts.

    It has no name that could be left behind, and on Linux no file: neither the size of /dev/shm nor its permissions
    matter.

    Attributes:
        view: the memory.

    Raises:
        OSError: there is not enough memory.
    """

    def __init__(self, size: int) -> None:
        file = _unnamed_file()
        weakref.finalize(self, os.close, file)
        os.ftruncate(file, size)
        self._file = file
        self.view = mmap.mmap(file, size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Attached, (reduction.DupFd(self._file), len(self.view))


class _Attached(SharedMemory):
    """The same memory in another process."""

    def __init__(self, descriptor: Any, size: int) -> None:
        file = descriptor.detach()
        try:
            self.view = mmap.mmap(file, size)
        finally:
            os.close(file)


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kartrl")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
