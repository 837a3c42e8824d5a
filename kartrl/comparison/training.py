"""Trains to completion: `kartrl train` in a separate process, resumed if an earlier one was interrupted."""

import time
from collections.abc import Callable, Sequence
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


def train_to_end(
    folder: Path, options: Sequence[str], limits: Run, on_look: Callable[[], None], again: Sequence[str] = ()
) -> Path:
    """Train or resume a run until its limit; return its last checkpoint.

    Its output goes to a file next to the folder, `<folder>.log`.

    Args:
        options: options of `kartrl train` for a new run; they must name this folder.
        limits: the run's [run] section.
        on_look: called periodically meanwhile.
        again: further options of `kartrl train --resume`, for an existing run.

    Raises:
        RunFailed: training ended before its limit, or another process uses the folder.
    """
    if (path := trained(folder, limits)) is not None:
        return path
    if has_checkpoint(folder):
        options = ["--resume", str(folder), *again]
    log = folder.with_name(f"{folder.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as output:
        process = start_training(options, output)
        try:
            while process.poll() is None:
                time.sleep(LOOK_SECONDS)
                on_look()
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
    path = trained(folder, limits)
    if path is None and process.returncode == 0:  # its minutes were over before its first update since the resume
        path = _newest(folder)
    if path is None:
        said = [line for line in _tail(log).splitlines() if line.strip()]
        raise RunFailed(
            f"training ended early with exit status {process.returncode}: {' / '.join(said[-2:])} (see {log})"
        )
    return path


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
