"""A function in a process of its own, which may crash or hang there."""

import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from kartrl.errors import UserError
from kartrl.runtime.processes import start_method


class Lost(UserError):
    """The process crashed or hung."""


def apart(function: Callable[..., Any], *arguments: Any, seconds: float = 60.0) -> Any:
    """The function's result, from a process of its own: an emulator that crashes or hangs must not take its user with it.

    Raises:
        Lost: the process ended without an answer, or gave none for so many seconds.
        UserError: the function raises it.
        RuntimeError: the function raises something else; the text holds the traceback.
    """
    context: Any = start_method()
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(writer, function, arguments), daemon=True)
    process.start()
    writer.close()
    try:
        if not reader.poll(seconds):
            raise Lost(f"it did not start within {seconds:g} s")
        answer = reader.recv()
    except EOFError as error:
        process.join()
        raise Lost(
            f"its process crashes as it starts (exit status {process.exitcode}); its package may have to be installed anew"
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
    except Exception:  # which might not survive the way
        answer = RuntimeError(traceback.format_exc())
    writer.send(answer)
