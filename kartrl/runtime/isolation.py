"""Runs a function in another process, where it may crash or hang."""

import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from kartrl.errors import UserError
from kartrl.runtime.processes import start_method


class ProcessLost(UserError):
    """The process crashed or hung."""


def run_isolated(function: Callable[..., Any], *arguments: Any, seconds: float = 60.0) -> Any:
    """Call the function in another process and return its result, to survive an emulator that crashes or hangs.

    Raises:
        ProcessLost: the process ended without a result, or returned none within `seconds`.
        UserError: raised by the function.
        RuntimeError: the function raised another exception; the message contains its traceback.
    """
    context: Any = start_method()
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(writer, function, arguments), daemon=True)
    process.start()
    writer.close()
    try:
        if not reader.poll(seconds):
            raise ProcessLost(f"it did not start within {seconds:g} s")
        answer = reader.recv()
    except EOFError as error:
        process.join()
        raise ProcessLost(
            f"its process crashes on start (exit status {process.exitcode}): try to reinstall its package"
        ) from error
    finally:
        process.kill()
        process.join()
        reader.close()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _answer(writer: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = function(*arguments)
    except UserError as error:
        answer = error
    except Exception:  # may not be picklable
        answer = RuntimeError(traceback.format_exc())
    writer.send(answer)
