"""Evaluates a policy and the scripted driver on many circuits, on all cores."""

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from rich.console import Console

from kartrl.config.levels import circuit_name
from kartrl.envs.episode import Drive
from kartrl.errors import RunFailed
from kartrl.hardware.machine import cores
from kartrl.kart.generalisation.protocol import write_json
from kartrl.kart.generalisation.splits import Split
from kartrl.kart.selection import circuits_of
from kartrl.kart.world import race_of
from kartrl.processes.spawn import start_method

GAME = "bundled"
MOST_WORKERS = 8  # each loads torch, about 300 MB
Result = TypeVar("Result")


def circuits_in(split: Split, console: Console) -> dict[str, tuple[str, ...]]:
    """Set -> its circuits, as names and paths of start states; builds the missing ones."""
    return {label: circuits_of(keys, GAME, console) for label, keys in split.sets().items()}


def measure(
    path: Path, sets: Mapping[str, Sequence[str]], episodes: int, on_circuit: Callable[[], None]
) -> dict[str, Any]:
    """Evaluate the greedy policy of a checkpoint: short name of each circuit -> its set and episodes.

    Args:
        sets: label -> circuits.
        on_circuit: called after each circuit.
    """
    from kartrl.driving.driver import open_driver  # imports torch
    from kartrl.driving.episodes import Start
    from kartrl.driving.levels import drive_levels

    labels = {circuit: label for label, circuits in sets.items() for circuit in circuits}
    starts = [Start(circuit, seed) for circuit in labels for seed in range(episodes)]
    measured: dict[str, dict[int, Any]] = {circuit: {} for circuit in labels}

    def keep(start: Start, driven: Drive) -> None:
        race, finished = race_of(driven.episode), driven.episode.finished
        one = {"finished": finished, "progress": race.progress, "lap_times": list(race.lap_times)}
        measured[start.level][start.seed] = one
        if len(measured[start.level]) == episodes:
            on_circuit()

    with open_driver(path, [*labels], "cpu") as driver:
        drive_levels(driver, starts, greedy=True, on_end=keep)
    return {
        circuit_name(circuit): {"set": label, "episodes": [measured[circuit][seed] for seed in range(episodes)]}
        for circuit, label in labels.items()
    }


def reference_laps(file: Path, circuits: Iterable[str], on_circuit: Callable[[], None]) -> dict[str, float | None]:
    """Short name of each circuit -> the scripted driver's median lap time in seconds, None if it completes none.

    Args:
        file: cache of the results; circuits in it are not driven again.

    Raises:
        RunFailed: a process crashed.
    """
    known: dict[str, float | None] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    missing = [circuit for circuit in dict.fromkeys(circuits) if circuit_name(circuit) not in known]
    if missing:
        with _make_pool() as pool:
            tasks: dict[Future[tuple[float, ...]], str] = {
                pool.submit(_drive_scripted, circuit): circuit for circuit in missing
            }
            for task in as_completed(tasks):
                laps = _result(task)
                known[circuit_name(tasks[task])] = median(laps) if laps else None
                on_circuit()
        write_json(file, known)
    return known


def _result(task: Future[Result]) -> Result:
    try:
        return task.result()
    except BrokenProcessPool as error:
        raise RunFailed("an evaluation process died; the machine may be out of memory") from error


def _make_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(min(cores(), MOST_WORKERS), mp_context=start_method(), initializer=_init_worker)


def _init_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(os, "nice"):
        os.nice(5)


def _drive_scripted(circuit: str) -> tuple[float, ...]:
    from kartrl.kart.circuits.driver import lap_times

    return lap_times(circuit)
