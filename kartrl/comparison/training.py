"""Trains to completion: `kartrl train` in a separate process, resumed if an earlier one was interrupted."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from kartrl.config import Run
from kartrl.errors import RunFailed
from kartrl.launch import start_training
from kartrl.learning import checkpoint
from kartrl.metrics.scalars_csv import come_to
from kartrl.run.run_folder import ended_by, has_checkpoint
from kartrl.run.stopping import is_rule

LOOK_SECONDS = 0.5
TAIL = 4096  # bytes to read from the end of a log


class Training:
    """`kartrl train` of one run in a process of its own, resumed if an earlier one was interrupted.

    Its output goes to a file next to the folder, `<folder>.log`.

    Args:
        folder: where it is, or will be.
        options: options of `kartrl train` for a new run; they must name this folder.
        limits: the run's [run] section.
        again: further options of `kartrl train --resume`, for an existing run.
        cores: numbers of the cores that it may use; default: those of this process.
    """

    def __init__(
        self, folder: Path, options: Sequence[str], limits: Run, again: Sequence[str] = (), cores: Collection[int] = ()
    ) -> None:
        self.folder, self._limits = folder, limits
        if has_checkpoint(folder):
            options = ["--resume", str(folder), *again]
        self._log = folder.with_name(f"{folder.name}.log")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as output, confined(cores):
            self._process = start_training(options, output)

    @property
    def ended(self) -> bool:
        """Whether the process has."""
        return self._process.poll() is not None

    @property
    def share(self) -> float:
        """Fraction of its limit that it has reached."""
        return share_trained(self.folder, self._limits)

    def request_end(self) -> None:
        """Have it save its state and end, if it runs; `wait` for that."""
        if not self.ended:
            self._process.terminate()

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def result(self) -> Path:
        """The last checkpoint, once it has ended.

        Raises:
            RunFailed: it ended before its limit, or another process uses the folder.
        """
        status = self._process.wait()
        path = trained(self.folder, self._limits)
        if path is None and status == 0:  # its minutes were over before its first update since the resume
            path = _newest(self.folder)
        if path is None:
            said = " / ".join([line for line in _tail(self._log).splitlines() if line.strip()][-2:])
            how = f"exit status {status}"
            if status == -signal.SIGKILL:
                how, said = "SIGKILL, as where memory runs out", said or "it said nothing"
            raise RunFailed(f"training ended early with {how}: {said} (see {self._log})")
        return path


@contextlib.contextmanager
def confined(cores: Collection[int]) -> Iterator[None]:
    """Context manager: what this thread starts may use only these cores; none: those of this process.

    Where a process cannot be confined, as on macOS, this does nothing.
    """
    if not cores or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def train_to_end(
    folder: Path, options: Sequence[str], limits: Run, on_look: Callable[[], None], again: Sequence[str] = ()
) -> Path:
    """Train or resume a run until its limit, as `Training`; return its last checkpoint.

    Args:
        on_look: called periodically meanwhile.

    Raises:
        RunFailed: training ended before its limit, or another process uses the folder.
    """
    if (path := trained(folder, limits)) is not None:
        return path
    training = Training(folder, options, limits, again)
    try:
        while not training.ended:
            time.sleep(LOOK_SECONDS)
            on_look()
    finally:
        training.request_end()
        training.wait()
    return training.result()


def trained(folder: Path, limits: Run) -> Path | None:
    """The last checkpoint of a run that has reached its limit or was ended by a rule; otherwise None."""
    path = _newest(folder)
    if path is None or is_rule(ended_by(folder)) or int(path.stem) >= limits.agent_steps:
        return path
    late = limits.minutes and checkpoint.load(path).counters.seconds >= 60 * limits.minutes
    return path if late else None


def share_trained(folder: Path, limits: Run) -> float:
    """Fraction of its limit that a run has reached, 0 to 1, from its metrics."""
    seconds, agent_steps = come_to(folder)
    share = agent_steps / limits.agent_steps
    return min(1.0, max(share, seconds / (60 * limits.minutes)) if limits.minutes else share)


def _newest(folder: Path) -> Path | None:
    newest = checkpoint.newest_readable(folder)
    return None if newest is None else newest[0]


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - TAIL))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
