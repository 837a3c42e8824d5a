"""A function in a process of its own, which may crash or hang there."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from kartrl.errors import UserError

LONGEST_SECONDS = 60.0


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result, from a process of its own: an emulator that crashes or hangs must not take the report with it.

    Raises:
        UserError: it did, or the function raises it.
        RuntimeError: the function raises something else.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(writer, function, arguments), daemon=True)
    process.start()
    writer.close()
    try:
        if not reader.poll(LONGEST_SECONDS):
            raise UserError(f"it did not start within {LONGEST_SECONDS:.0f} s")
        answer = reader.recv()
    except EOFError as error:
        process.join()
        raise UserError(f"its process crashes as it starts (exit status {process.exitcode}): install its package anew") from error
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
    except Exception as error:  # which might not survive the way
        answer = RuntimeError(f"{type(error).__name__}: {error}")
    writer.send(answer)
