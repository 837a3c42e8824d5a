"""A pipe for records to another process."""

import contextlib
import queue
import threading
from multiprocessing.context import BaseContext
from typing import Any


class RecordPipe:
    """Sends records to one other process, in the background: `put` never waits.

    Unlike `multiprocessing.Queue` it has no lock that a killed process could leave held, and no named semaphore that
    could be left behind.

    Args:
        limit: maximum number of waiting records; more are lost.

    Attributes:
        reader: pass it to the other process and close it here; raises `EOFError` after `close`.
    """

    def __init__(self, context: BaseContext, limit: int) -> None:
        self.reader, self._writer = context.Pipe(duplex=False)
        self._waiting: queue.Queue[tuple[Any, ...]] = queue.Queue(limit)
        threading.Thread(target=self._send, name="records", daemon=True).start()

    def put(self, record: Any) -> bool:
        """Send a record; False if it is lost because too many are waiting."""
        try:
            self._waiting.put_nowait((record,))
        except queue.Full:
            return False
        return True

    @property
    def waiting(self) -> int:
        """Number of records that the other process has not been sent yet."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Send only what is already waiting; call it once the other process has ended, or will read to the end."""
        with contextlib.suppress(queue.Full):  # then no one reads, and the thread has ended
            self._waiting.put_nowait(())

    def _send(self) -> None:
        with self._writer, contextlib.suppress(BrokenPipeError):  # the other process has ended
            while record := self._waiting.get():
                self._writer.send(*record)
