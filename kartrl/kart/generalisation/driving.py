"""Drives a policy and the scripted driver on many circuits, on all cores."""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from statistics import median
from typing import Any

from kartrl.driving.driver import open_driver
from kartrl.driving.episodes import Start
from kartrl.driving.levels import drive_levels
from kartrl.envs.episode import Drive
from kartrl.errors import RunFailed
from kartrl.hardware.machine import cores
from kartrl.kart.circuits.driver import lap_times
from kartrl.kart.generalisation.protocol import write_json
from kartrl.kart.levels import circuit_name
from kartrl.kart.race_world import race_of
from kartrl.processes.spawn import start_method

GAME = "bundled"
MOST_WORKERS = 8


def measure(
    path: Path, sets: Mapping[str, Sequence[str]], episodes: int, on_circuit: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Evaluate the greedy policy of a checkpoint: short name of each circuit -> its set and episodes.

    Args:
        sets: label -> circuits.
    """
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


def reference_laps(file: Path, circuits: Sequence[str]) -> dict[str, float | None]:
    """Short name of each circuit -> the scripted driver's median lap time in seconds, None if it completes none.

    Args:
        file: cache of the results; circuits in it are not driven again.

    Raises:
        RunFailed: a process crashed.
    """
    known: dict[str, float | None] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    missing = [circuit for circuit in dict.fromkeys(circuits) if circuit_name(circuit) not in known]
    if missing:
        ignored = (signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
        workers = min(cores(), MOST_WORKERS)
        try:
            with ProcessPoolExecutor(workers, start_method(), initializer=signal.signal, initargs=ignored) as pool:
                for circuit, laps in zip(missing, pool.map(lap_times, missing), strict=True):
                    known[circuit_name(circuit)] = median(laps) if laps else None
        except BrokenProcessPool as error:
            raise RunFailed("an evaluation process died; the machine may be out of memory") from error
        write_json(file, known)
    return known
