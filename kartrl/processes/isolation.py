"""Runs a function in another process, where it may crash or hang."""

import contextlib
import inspect
import math
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from kartrl.errors import UserError, located, shortage
from kartrl.processes.child import kill_orphans, start_process, tell_exit
from kartrl.processes.output import outlast_readers
from kartrl.processes.pipes import Inbox
from kartrl.processes.spawn import follow_parent, start_method

SLOW_SECONDS = 5.0  # until a function that has not ended is reported
END_SECONDS = 5.0  # for a process to end after it is killed or its pipe is closed


class ProcessLost(UserError):
    """The process crashed or hung."""


class Hung(ProcessLost):
    """The process showed no sign of life for too long."""


class CodeFailed(UserError):
    """The function raised an exception that was not meant for users; the text says which and where, in one line."""


def run_isolated(
    function: Callable[..., Any], *arguments: Any, seconds: float = 60.0, slow: Callable[[], None] = lambda: None
) -> Any:
    """Call the function in another process and return its result, to survive an emulator that crashes or hangs.

    Of a generator function, the result is what it yields last; also if the process crashes or hangs after that.

    Args:
        seconds: that may pass from one sign of life to the next: its start, `show_life`, a yielded result.
        slow: called once if there is no last result after `SLOW_SECONDS`.

    Raises:
        ProcessLost: the process ended or hung without a result.
        UserError: raised by the function.
        CodeFailed: the function raised another exception.
        RunFailed: no process can be started.
    """
    context: Any = start_method()
    reader, writer = context.Pipe(duplex=False)
    process = start_process(context.Process(target=_answer, args=(writer, function, arguments), daemon=True))
    writer.close()
    try:
        answer = _receive(reader, seconds, slow)
    except EOFError as error:
        process.join(END_SECONDS)
        raise ProcessLost(
            f"its process crashes on start ({tell_exit(process.exitcode)}): try reinstalling its package"
        ) from error
    finally:
        process.kill()
        process.join(END_SECONDS)
        kill_orphans()
        reader.close()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _receive(reader: Connection, seconds: float, slow: Callable[[], None]) -> Any:
    """The last result; see `run_isolated`."""
    begin = time.monotonic()
    inbox, newest, deadline, report = Inbox(reader), None, begin + seconds, begin + SLOW_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        if time.monotonic() >= report:
            report = math.inf
            slow()
        if not wait([reader], min(left, report - time.monotonic())):
            continue
        try:
            messages = inbox.receive()
        except EOFError:
            if newest is None:
                raise
            return newest
        for result, is_last in messages:
            if is_last:
                return newest if result is None else result
            newest, deadline = newest if result is None else result, time.monotonic() + seconds
    if newest is None:
        raise Hung(f"it did not answer within {seconds:g} s")
    return newest


_writer: Connection | None = None  # of a process that runs a function here


def show_life() -> None:
    """Tell the caller of `run_isolated`, if the function runs in its process, that it makes progress."""
    if _writer is not None:
        _writer.send((None, False))


def _answer(writer: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    global _writer
    outlast_readers()
    follow_parent()
    _writer = writer
    with contextlib.suppress(ConnectionError):  # no one may be waiting for it any more
        try:
            result = function(*arguments)
            if inspect.isgenerator(result):
                for each in result:
                    writer.send((each, False))
                result = None
        except ConnectionError:
            raise
        except UserError as error:
            result = error
        except (Exception, SystemExit) as error:  # may not be picklable
            cause = shortage(error)
            result = UserError(cause) if cause is not None else CodeFailed(located(error))
        writer.send((result, True))
