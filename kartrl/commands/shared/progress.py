"""Shows the progress of driving: a bar in a terminal; elsewhere a line on stderr every `LINE_SECONDS`."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import rich.progress
from rich.console import Console

BAR_SECONDS, LINE_SECONDS = 0.2, 30.0  # between two updates; short work prints nothing outside a terminal


class Progress:
    """Context manager: the progress of episodes that are driven one after another."""

    def __init__(self, console: Console, total: int | None) -> None:
        columns = (
            rich.progress.SpinnerColumn(),
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
        )
        self._plain = not console.is_terminal
        self._bar = rich.progress.Progress(*columns, console=console, transient=True, disable=self._plain)
        self._task = self._bar.add_task("", total=total)
        self._title, self._steps = "", 0
        self._due = time.monotonic() + (LINE_SECONDS if self._plain else 0)

    def begin(self, title: str) -> None:
        """An episode begins."""
        self._title, self._steps = title, -1

    def step(self, more: Callable[[], str] = str) -> None:
        """Call at an episode's start and after each step.

        Args:
            more: makes what is appended to the line.
        """
        self._steps += 1
        if time.monotonic() >= self._due:
            self.tell(f"{self._title}, {self._steps:,} steps{more()}")

    def tell(self, text: str) -> None:
        """Show the text, if it is time to show any."""
        if (now := time.monotonic()) < self._due:
            return
        self._due = now + (LINE_SECONDS if self._plain else BAR_SECONDS)
        self._bar.update(self._task, description=text)
        if self._plain:
            print(f"kartrl: {text}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """An episode has ended."""
        self._bar.advance(self._task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
