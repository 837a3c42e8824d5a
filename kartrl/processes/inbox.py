"""Receives messages from another process without ever waiting for the rest of one."""

import os
import pickle
import struct
from multiprocessing.connection import Connection
from typing import Any

LENGTH, LONG_LENGTH = struct.Struct("!i"), struct.Struct("!q")  # header of `Connection.send`; -1, then the long
READ_BYTES = 1 << 20  # more than a pipe or a socket holds


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
