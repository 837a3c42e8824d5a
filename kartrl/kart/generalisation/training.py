"""A run of the benchmark: `kartrl train` in a subprocess, resumed if an earlier one was interrupted."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kartrl.errors import RunFailed
from kartrl.kart.generalisation.protocol import Protocol
from kartrl.kart.generalisation.splits import Split
from kartrl.launch import config_options, start_training
from kartrl.learning import checkpoint
from kartrl.metrics.scalars_csv import last_step
from kartrl.runtime import run_folders as runs

LOOK_SECONDS = 0.5
TAIL = 4096  # bytes to read from the end of a log


class Run(NamedTuple):
    """A policy to train: a split and a seed."""

    split: Split
    seed: int
    folder: Path  # run folder

    @property
    def name(self) -> str:
        """Name of the run."""
        return f"{self.split.name}-seed{self.seed}"

    @property
    def result(self) -> Path:
        """File with the results of the evaluation."""
        return self.folder / "result.json"


def train(run: Run, protocol: Protocol, on_steps: Callable[[int], None]) -> Path:
    """Train or resume until the last step; returns the last checkpoint.

    Args:
        on_steps: called periodically with the agent steps done.

    Raises:
        RunFailed: training ended before its last step.
    """
    if (path := _trained(run, protocol)) is not None:
        return path
    if checkpoint.newest(run.folder) is None:
        _clear(run.folder)
        own = (f"run.logs={run.folder.parent}", f"run.name={run.folder.name}", f"run.seed={run.seed}")
        options = config_options([], [*protocol.overrides_of(run.split), *own])
    else:
        options = ["--resume", str(run.folder)]
    log = run.folder.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as output:
        process = start_training(options, output)
        try:
            while process.poll() is None:
                time.sleep(LOOK_SECONDS)
                on_steps(min(last_step(run.folder), protocol.agent_steps))
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
    path = _trained(run, protocol)
    if path is None:
        said = [line for line in _tail(log).splitlines() if line.strip()]
        raise RunFailed(
            f"training ended early with exit status {process.returncode}: {' / '.join(said[-2:])} (see {log})"
        )
    return path


def _trained(run: Run, protocol: Protocol) -> Path | None:
    path = checkpoint.newest(run.folder)
    return path if path is not None and int(path.stem) >= protocol.agent_steps else None


def _clear(folder: Path) -> None:
    """Delete an interrupted run without a checkpoint; no other process may be using it."""
    if folder.exists():
        locked = runs.lock(folder)
        shutil.rmtree(folder)
        runs.release(locked)


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - TAIL))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
