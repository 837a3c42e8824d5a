"""Standard output and error whose loss does not end the process."""

import contextlib
import errno
import io
import os
import select
import stat
import sys
from typing import Any

GONE = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO)  # a pipe without a reader, a terminal that was closed
PATIENCE = 1.0  # seconds to wait for a reader, once


def outlast_readers(tell: bool = False) -> None:
    """From now on, printing neither fails nor waits long: what cannot be written is dropped.

    This covers a reader that has exited or is not reading, a terminal that was closed or stopped by Ctrl-S, and a full
    disk.

    Args:
        tell: report once on stderr that stdout's reader has exited.
    """
    for descriptor in range(3):
        _ensure_open(descriptor)
    sys.stdout = _lasting(sys.stdout, 1, "standard output" if tell else "")
    sys.stderr = _lasting(sys.stderr, 2, "")


def _ensure_open(descriptor: int) -> None:
    """Open a closed descriptor: otherwise the next opened file would get its number, and everything printed."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one


def _lasting(stream: Any, descriptor: int, name: str) -> Any:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Lasting(descriptor, name)),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors=getattr(stream, "errors", "backslashreplace"),
        line_buffering=True,
    )


class _Lasting(io.FileIO):
    """A file whose writes never fail: what cannot be written is dropped."""

    def __init__(self, descriptor: int, name: str) -> None:
        own = _reopen(descriptor)
        super().__init__(descriptor if own is None else own, "w", closefd=own is not None)
        self._descriptor, self._name, self._patience = descriptor, name, PATIENCE
        self._poll = select.poll()
        self._poll.register(self.fileno(), select.POLLOUT)

    def write(self, data: Any) -> int:
        if not self._poll.poll(1000 * self._patience):
            self._patience = 0.0
            return len(data)
        self._patience = PATIENCE
        try:
            written = super().write(data[: select.PIPE_BUF])  # a writable pipe accepts this much at once
        except OSError as error:
            if error.errno in GONE:
                self._give_up()
            return len(data)
        return len(data) if written is None else written

    def _give_up(self) -> None:
        """Become /dev/null, for code in C too."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.dup2(null, self._descriptor)
        os.close(null)
        if self._name:
            print(f"kartrl: nobody reads {self._name} any more; training continues without it", file=sys.stderr)


def _reopen(descriptor: int) -> int | None:
    """Reopen the same pipe or terminal for this process alone, to make it non-blocking, if Linux allows it.

    Several processes write to it, so it may be full although it was ready a moment ago.
    """
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
        return None
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
