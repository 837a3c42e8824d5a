"""A queue of small numbers that no killed process can leave locked."""

import os
import select
import struct
import threading
from multiprocessing.context import BaseContext
from typing import Any

_NUMBER = struct.Struct("<i")


class IndexQueue:
    """Small numbers from many processes to the threads of the one that made it.

    A message is one write of 4 bytes to a pipe, which is atomic: no writer holds a lock, so none can die holding one.
    Only the reading threads, which live and die together, take turns; one read takes all that wait.
    """

    def __init__(self, context: BaseContext) -> None:
        self._reader, self._writer = context.Pipe(duplex=False)
        self._reading = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_writer": self._writer}  # another process only writes

    def put(self, index: int) -> None:
        """Append; blocks only when thousands wait."""
        os.write(self._writer.fileno(), _NUMBER.pack(index))

    def get_many(self, limit: int, timeout: float) -> list[int]:
        """Up to `limit` numbers, as soon as there is one; none after `timeout` seconds."""
        if limit < 1 or not self._reading.acquire(timeout=timeout):
            return []
        try:
            file = self._reader.fileno()
            if not readable(file, timeout):
                return []
            return [number for (number,) in _NUMBER.iter_unpack(os.read(file, _NUMBER.size * limit))]
        finally:
            self._reading.release()


def readable(file: int, timeout: float) -> bool:
    """Whether there is something to read from the file descriptor, within `timeout` seconds."""
    return bool(select.select([file], [], [], timeout)[0])
