"""Pipes between processes, none of which a killed process can block: messages, signs of life, records, numbers."""

import contextlib
import os
import pickle
import queue
import select
import struct
import threading
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

LENGTH, LONG_LENGTH = struct.Struct("!i"), struct.Struct("!q")  # header of `Connection.send`; -1, then the long
READ_BYTES = 1 << 20  # more than a pipe or a socket holds
_NUMBER = struct.Struct("<q")


class Inbox:
    """Receives what is sent by `Connection.send`.

    `Connection.recv` waits until a message is complete, which may be forever: its sender may have been stopped while
    writing it.
    """

    def __init__(self, reader: Connection) -> None:
        self.reader = reader
        self._received = bytearray()
        os.set_blocking(reader.fileno(), False)

    def receive(self) -> list[Any]:
        """The messages that are complete by now, after reading what is in the pipe.

        Raises:
            EOFError: there will be no more.
        """
        try:
            received = os.read(self.reader.fileno(), READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionResetError:  # the other end of a socket was closed before it had read all
            received = b""
        if not received:
            raise EOFError
        self._received += received
        return [pickle.loads(message) for message in iter(self._next, None)]

    def _next(self) -> bytes | None:
        """The next message, if it is complete."""
        begin, content = LENGTH.size, self._received
        if len(content) < begin:
            return None
        (length,) = LENGTH.unpack_from(content)
        if length == -1:
            begin += LONG_LENGTH.size
            if len(content) < begin:
                return None
            (length,) = LONG_LENGTH.unpack_from(content, LENGTH.size)
        if len(content) < begin + length:
            return None
        message = bytes(content[begin : begin + length])
        del content[: begin + length]
        return message


class Pulse:
    """Sends signs of life.

    Args:
        writer: end of a pipe whose other end goes to `is_felt`; None: no one checks.
    """

    def __init__(self, writer: Connection | None) -> None:
        self._writer = writer
        if writer is not None:
            os.set_blocking(writer.fileno(), False)

    def beat(self) -> None:
        """Send one; never waits."""
        if self._writer is not None:
            with contextlib.suppress(BlockingIOError, BrokenPipeError):  # earlier ones are unread yet, or for good
                os.write(self._writer.fileno(), b".")


def is_felt(reader: Connection) -> bool:
    """Whether there was a sign of life since the last call; never waits."""
    os.set_blocking(reader.fileno(), False)
    try:
        return bool(os.read(reader.fileno(), 1 << 16))
    except BlockingIOError:
        return False


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
