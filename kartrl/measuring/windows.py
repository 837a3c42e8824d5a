"""Measurement windows of real training, and of other systems' training."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.progress import Progress

from kartrl.errors import UserError
from kartrl.launch import config_options, start_training
from kartrl.metrics import scalars_csv
from kartrl.metrics.hardware import Hardware
from kartrl.metrics.scalars_csv import Row

STEPS, FIRST_UPDATE = "speed/agent_steps_per_second", "speed/first_update_seconds"  # tags in scalars.csv
IDLE = "time/learner_idle"
OURS = {"run.logs": "", "run.name": "bench", "run.agent_steps": "1000000000", "run.minutes": "0"}
"""Settings of a window's training, in a temporary folder."""
END_SECONDS = 20.0  # for training to end by itself after SIGTERM


class Window(NamedTuple):
    """Measurements of a stretch of training."""

    agent_steps_per_second: float
    first_update_seconds: float  # from the start of the process
    memory_gb: float  # of the whole process tree (PSS)
    lag: float  # mean, in updates
    prediction_batch: float  # mean
    stages: dict[str, float]  # "<role>_<stage>" -> share of the role's time
    learner_idle: float  # share of the time without an update
    replay: dict[str, float]  # seconds per drawn batch, by replay, and for insert and read
    cores: dict[str, float]  # role -> CPU cores kept busy


def train_window(options: Sequence[str], seconds: float, warm: float, progress: Progress) -> Window:
    """Train, and measure the `seconds` that begin `warm` seconds after the first update.

    Args:
        options: of `kartrl train`.
    """
    with tempfile.TemporaryDirectory() as folder:
        fixed = [f"{key}={value}" for key, value in {**OURS, "run.logs": folder}.items()]
        process = start_training([*options, *config_options([], fixed)], subprocess.PIPE)
        try:
            run_folder = Path(folder) / "bench"
            hardware = None
            task = progress.add_task("training", total=None)
            while _span(rows := list(scalars_csv.read(run_folder)), warm) < seconds:
                if hardware is None and _reports(rows, warm):
                    hardware = Hardware(process.pid)  # the logger samples too seldom for a short window
                if process.poll() is not None:
                    raise UserError(f"the training ended early:\n{process.stdout.read() if process.stdout else ''}")
                progress.update(task, description=f"training: {max(0.0, _span(rows, warm)):.0f} of {seconds:.0f} s")
                time.sleep(1)
            progress.remove_task(task)
            usage = (hardware or Hardware(process.pid)).sample()
        finally:
            _end(process)
        return _window(rows, warm, usage)


def _begin(rows: Sequence[Row], warm: float) -> float:
    """Start of the window: `warm` seconds after the first report with an update."""
    return next((row.seconds for row in rows if row.agent_steps > 0), float("inf")) + warm


def _reports(rows: Sequence[Row], warm: float) -> list[Row]:
    begin = _begin(rows, warm)
    return [row for row in rows if row.tag == STEPS and row.seconds >= begin]


def _span(rows: Sequence[Row], warm: float) -> float:
    reports = _reports(rows, warm)
    return reports[-1].seconds - reports[0].seconds if reports else 0.0


def _window(rows: Sequence[Row], warm: float, usage: Mapping[str, float]) -> Window:
    """The figures of a window.

    Args:
        usage: of the hardware, by `Hardware.sample`.
    """
    reports = _reports(rows, warm)
    first, last = reports[0], reports[-1]
    if first.agent_steps == last.agent_steps:
        raise UserError(f"no update within {last.seconds - first.seconds:.0f} s of training; choose more --seconds")
    means: dict[str, list[float]] = {}
    for row in rows:
        if row.seconds > first.seconds or row.tag == FIRST_UPDATE:
            means.setdefault(row.tag, []).append(row.value)
    values = {tag: statistics.fmean(numbers) for tag, numbers in means.items()}
    return Window(
        agent_steps_per_second=(last.agent_steps - first.agent_steps) / (last.seconds - first.seconds),
        first_update_seconds=values.get(FIRST_UPDATE, float("nan")),
        memory_gb=usage["system/memory_gb"],
        lag=values.get("lag/mean", float("nan")),
        prediction_batch=values["speed/prediction_batch_size"],
        stages={
            tag.removeprefix("time/"): value
            for tag, value in values.items()
            if tag.startswith("time/") and not tag.startswith(("time/replay_", IDLE))
        },
        learner_idle=values.get(IDLE, float("nan")),
        replay={
            tag.removeprefix("time/replay_").removesuffix("_seconds"): value
            for tag, value in values.items()
            if tag.startswith("time/replay_")
        },
        cores={
            tag.removeprefix("system/cores_"): value for tag, value in usage.items() if tag.startswith("system/cores_")
        },
    )


def peer_command(text: str) -> list[str]:
    """A command as typed in a shell, split into words; [] for "".

    Raises:
        UserError: a quotation is not closed, or there is no such program.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--peer: {str(error).lower()} (got {text[:80]!r})") from error
    if words and shutil.which(words[0]) is None:
        raise UserError(f"--peer: there is no program {words[0]!r}")
    return words


def peer_rate(command: Sequence[str], seconds: float, warm: float, progress: Progress) -> float:
    """Agent steps per second of another system, over a window of the same length.

    Args:
        command: its words; it prints lines "@B steps=<agent steps> upd=<updates>", like those in benchmarks/peers.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdout is not None
    points: list[tuple[float, int]] = []
    begin, tail = float("inf"), ""
    task = progress.add_task("peer", total=None)
    try:
        for line in process.stdout:
            now, tail = time.monotonic(), (tail + line)[-2000:]
            found = re.search(r"@B steps=(\d+) upd=(\d+)", line)
            if found and int(found[2]) > 0:
                begin = min(begin, now + warm)
                if now >= begin:
                    points.append((now, int(found[1])))
                    progress.update(task, description=f"peer: {now - points[0][0]:.0f} of {seconds:.0f} s")
                    if now - points[0][0] >= seconds:
                        (first, before), (last, after) = points[0], points[-1]
                        if after == before:
                            raise UserError(f"the peer made no agent steps within {seconds:g} s; choose more --seconds")
                        return (after - before) / (last - first)
    finally:
        progress.remove_task(task)
        _end(process)
    raise UserError(f"the peer ended early, or printed no lines '@B steps=... upd=...':\n{tail}")


def _end(process: "subprocess.Popen[str]") -> None:
    """End a command and its descendants: with SIGTERM, so that it can clean up, then with SIGKILL."""
    family = []
    with contextlib.suppress(psutil.Error):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
