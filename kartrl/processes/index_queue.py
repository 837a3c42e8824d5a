"""A queue of integers that a killed process cannot leave locked."""

import os
import select
import struct
import threading
from multiprocessing.context import BaseContext
from typing import Any

_NUMBER = struct.Struct("<q")


class IndexQueue:
    """Sends integers from many processes to threads of the process that created it.

    A message is an atomic write of 8 bytes to a pipe: writers need no lock, so none can die holding one. Only the
    reading threads, which share a process, use a lock; one read returns all waiting messages.
    """

    def __init__(self, context: BaseContext) -> None:
        self.reader, self.writer = context.Pipe(duplex=False)
        self._reading = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"writer": self.writer}  # other processes only write

    def put(self, index: int) -> None:
        """Append; blocks only if thousands are waiting."""
        os.write(self.writer.fileno(), _NUMBER.pack(index))

    def get_many(self, limit: int, timeout: float) -> list[int]:
        """Up to `limit` integers, as soon as there is one; empty after `timeout` seconds."""
        if limit < 1 or not self._reading.acquire(timeout=timeout):
            return []
        try:
            file = self.reader.fileno()
            if not readable(file, timeout):
                return []
            return [number for (number,) in _NUMBER.iter_unpack(os.read(file, _NUMBER.size * limit))]
        finally:
            self._reading.release()


def readable(file: int, timeout: float) -> bool:
    """Whether the file descriptor becomes readable within `timeout` seconds."""
    return bool(select.select([file], [], [], timeout)[0])
