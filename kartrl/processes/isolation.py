"""Runs a function in another process, where it may crash or hang."""

import contextlib
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from kartrl.errors import UserError, located, shortage
from kartrl.processes.child import start_process, tell_exit
from kartrl.processes.inbox import Inbox
from kartrl.processes.output import outlast_readers
from kartrl.processes.spawn import follow_parent, start_method

END_SECONDS = 5.0  # for a process to end after it is killed or its pipe is closed


class ProcessLost(UserError):
    """The process crashed or hung."""


class CodeFailed(UserError):
    """The function raised an exception that was not meant for users; the text says which and where, in one line."""


def run_isolated(function: Callable[..., Any], *arguments: Any, seconds: float = 60.0) -> Any:
    """Call the function in another process and return its result, to survive an emulator that crashes or hangs.

    Raises:
        ProcessLost: the process ended without a result, or returned none within `seconds`.
        UserError: raised by the function.
        CodeFailed: the function raised another exception.
        RunFailed: no process can be started.
    """
    context: Any = start_method()
    reader, writer = context.Pipe(duplex=False)
    process = start_process(context.Process(target=_answer, args=(writer, function, arguments), daemon=True))
    writer.close()
    try:
        answer = _receive(reader, seconds)
    except EOFError as error:
        process.join(END_SECONDS)
        raise ProcessLost(
            f"its process crashes on start ({tell_exit(process.exitcode)}): try reinstalling its package"
        ) from error
    finally:
        process.kill()
        process.join(END_SECONDS)
        reader.close()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _receive(reader: Connection, seconds: float) -> Any:
    """The only message; see `run_isolated`."""
    inbox, deadline = Inbox(reader), time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if wait([reader], left) and (messages := inbox.receive()):
            return messages[0]
    raise ProcessLost(f"it did not start within {seconds:g} s")


def _answer(writer: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    outlast_readers()
    follow_parent()
    try:
        answer = function(*arguments)
    except UserError as error:
        answer = error
    except Exception as error:  # may not be picklable
        cause = shortage(error)
        answer = UserError(cause) if cause is not None else CodeFailed(located(error))
    with contextlib.suppress(ConnectionError):  # no one is waiting for it any more
        writer.send(answer)
