"""Signals that come while C code runs which calls Python: an exception that a handler raised there would be lost."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

_calls = 0  # of such C code that are under way in the main thread, where all handlers run
_waiting: list[Callable[[], Any]] = []


def deferred(handler: Handler) -> Handler:
    """A signal handler that calls `handler` at once or, inside of `held`, when that ends."""

    def take(number: int, frame: FrameType | None) -> None:
        if _calls:
            _waiting.append(lambda: handler(number, frame))
        else:
            handler(number, frame)

    return take


def defer_ctrl_c() -> None:
    """Where Ctrl-C raises a KeyboardInterrupt, as Python begins with, have it `deferred`."""
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, deferred(signal.default_int_handler))


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Context manager: `deferred` handlers wait until it ends; what they raise then comes out of it."""
    global _calls
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _calls += 1
    try:
        yield
    finally:
        _calls -= 1
        while _waiting and not _calls:
            _waiting.pop(0)()
