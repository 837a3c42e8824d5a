"""Standard output and error that a process survives the loss of."""

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

    So it is where the reader has gone or is asleep, where the terminal was closed or stopped by Ctrl-S, where a disk is
    full.

    Args:
        tell: say once on stderr that stdout's reader has gone.
    """
    for descriptor in range(3):
        _ensure_open(descriptor)
    sys.stdout = _lasting(sys.stdout, 1, "standard output" if tell else "")
    sys.stderr = _lasting(sys.stderr, 2, "")


def _ensure_open(descriptor: int) -> None:
    """Where it was closed, the next file that is opened would get its number, and what is printed."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one


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
    """A file whose writes are never refused: what cannot be written is dropped."""

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
            written = super().write(data[: select.PIPE_BUF])  # what a pipe that can be written to takes at once
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
    """The same pipe or terminal for this process alone, so that it can be made not to block, where Linux allows it.

    Several processes write to it: one that was ready a moment ago may be full.
    """
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
        return None
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
