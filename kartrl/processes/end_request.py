"""Ctrl-C, SIGTERM and SIGHUP during training: the first asks it to end, a second one ends it at once."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from kartrl.processes.child import kill_children

# Seconds after the first signal within which another one counts as the same: `timeout`, shells and service managers
# send one each to a process and to its group, and a closing terminal sends several.
SAME = {"SIGINT": 0.2, "SIGTERM": 2.0, "SIGHUP": float("inf")}
SHOW_CURSOR = "\x1b[?25h"  # which a live panel hides


def end_at_once() -> None:
    """Let these signals end the process silently, even while it loads a library: there is nothing to save yet."""
    for number in _signals():
        signal.signal(number, signal.SIG_DFL)


def _signals() -> list[signal.Signals]:
    """The signals to handle: all but a SIGHUP that is ignored, as under `nohup`; none outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return []
    numbers = [signal.Signals[name] for name in SAME]
    return [number for number in numbers if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Context manager: these signals are handled as before, afterwards."""
    before = {number: signal.getsignal(number) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class EndRequest:
    """Handles these signals from now on. The first is only remembered, so that nothing is interrupted halfway.

    A second one kills all processes and ends this one, with a line on what is lost.

    Args:
        tidy: called before a second signal ends the process.

    Attributes:
        number: of the first signal, or None.
        silent: whether the first signal is acknowledged by the code that polls `number`, not by the handler.
        last_words: returns what a second signal prints.
    """

    def __init__(self, tidy: Callable[[], None]) -> None:
        self.number: int | None = None
        self.silent = False
        self.last_words: Callable[[], str] = lambda: "nothing had been learned yet"
        self._tidy, self._raises, self._since = tidy, False, 0.0
        for number in _signals():
            signal.signal(number, self._receive)

    def check(self) -> None:
        """Raise SystemExit if there was a signal."""
        if self.number is not None:
            raise SystemExit(128 + self.number)

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Context manager: a signal raises SystemExit at once."""
        self._raises = True
        try:
            self.check()
            yield
        finally:
            self._raises = False

    def _receive(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.number is None:
            self.number, self._since = number, now
            if not self.silent:
                _write("kartrl: ending; Ctrl-C again ends at once\n")
            if self._raises:
                self.check()
        elif now - self._since > SAME[signal.Signals(number).name]:
            kill_children()
            _write(f"{SHOW_CURSOR if os.isatty(2) else ''}kartrl: ended at once; {self.last_words()}\n")
            self._tidy()
            os._exit(128 + number)


def _write(text: str) -> None:
    """Write to stderr bypassing its buffer, as a signal may come while that is in use."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
