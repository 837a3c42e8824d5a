"""Signs of life, which show one process that another makes progress."""

import contextlib
import os
from multiprocessing.connection import Connection


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
