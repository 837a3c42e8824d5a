"""Defers signals while C code calls back into Python: an exception raised by a handler there would be lost."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

_calls = 0  # nested `held` blocks in the main thread, where all handlers run
_waiting: list[Callable[[], Any]] = []


def deferred(handler: Handler) -> Handler:
    """A signal handler that calls `handler` at once or, inside `held`, when that ends."""

    def take(number: int, frame: FrameType | None) -> None:
        if _calls:
            _waiting.append(lambda: handler(number, frame))
        else:
            handler(number, frame)

    return take


def defer_ctrl_c() -> None:
    """If Ctrl-C raises a KeyboardInterrupt (Python's default), make it `deferred`."""
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, deferred(signal.default_int_handler))


class held:  # a class rather than a generator: every emulated frame enters it
    """Context manager: `deferred` handlers wait until it ends; it raises their exceptions."""

    def __enter__(self) -> None:
        global _calls
        self._main = threading.current_thread() is threading.main_thread()
        _calls += self._main

    def __exit__(self, *_: object) -> None:
        global _calls
        _calls -= self._main
        while self._main and _waiting and not _calls:
            _waiting.pop(0)()
