"""Measures of the report, computed from the episodes of all runs. Pure functions."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from kartrl.comparison.statistics import RESAMPLES, Estimate, interval
from kartrl.kart.circuits import LAPS
from kartrl.kart.generalisation.splits import SEEN
from kartrl.kart.levels import KINDS

Results = Sequence[Mapping[str, Any]]  # contents of the runs' `result.json`
Laps = Mapping[str, float | None]  # circuit -> the scripted driver's lap time, seconds


class Row(NamedTuple):
    """A set of circuits of a split, or of all folds of a family; each circuit is the mean over seeds and races."""

    split: str
    set: str
    circuits: int
    seeds: int
    finished: Estimate  # fraction of races finished
    progress: Estimate  # fraction of the race's five laps driven
    lap_time: Estimate | None  # median lap time relative to the scripted driver's, over circuits with a lap; None: none
    timed: int  # circuits with a lap in any run
    lost: Estimate | None  # generalisation gap: races finished on circuits trained on, minus `finished`


def circuit_measures(episodes: Sequence[Mapping[str, Any]], reference: float | None) -> dict[str, float | None]:
    """Measures of a policy on a circuit, where the scripted driver's lap takes `reference` seconds."""
    laps = [lap for episode in episodes for lap in episode["lap_times"]]
    return {
        "finished": fmean(episode["finished"] for episode in episodes),
        "progress": fmean(min(1.0, episode["progress"] / LAPS) for episode in episodes),
        "lap_time": median(laps) / reference if laps and reference else None,
    }


def make_rows(results: Results, reference: Laps) -> list[Row]:
    """A row per set of each split, and per set of each family of several folds, for the seeds that all folds have."""
    splits: dict[str, dict[int, Mapping[str, Any]]] = {}
    for result in results:
        splits.setdefault(result["split"], {})[result["seed"]] = result["circuits"]
    families: dict[str, list[str]] = {}
    for name in splits:
        families.setdefault(name.partition("-")[0], []).append(name)
    rows = []
    for family, names in families.items():
        for name in names:
            rows += _rows(name, [*splits[name].values()], len(splits[name]), reference)
        common = set.intersection(*(set(splits[name]) for name in names))
        if len(names) > 1 and common:
            rows += _rows(family, [splits[name][seed] for name in names for seed in common], len(common), reference)
    return rows


def _rows(name: str, runs: Results, seeds: int, reference: Laps) -> list[Row]:
    sets: dict[str, dict[str, list[dict[str, float | None]]]] = {SEEN: {}}  # set -> circuit -> measures of each run
    for run in runs:
        for circuit, member in run.items():
            of_circuit = sets.setdefault(member["set"], {}).setdefault(circuit, [])
            of_circuit.append(circuit_measures(member["episodes"], reference.get(circuit)))
    rows: list[Row] = []
    for label, circuits in sets.items():
        finished, progress, times = (
            [
                fmean(known)
                for runs in circuits.values()
                if (known := [one for run in runs if (one := run[key]) is not None])
            ]
            for key in ("finished", "progress", "lap_time")
        )
        if label == SEEN:
            seen = finished
        lost = None if label == SEEN else _estimate(seen, finished)
        time = _estimate(times) if times else None
        rows.append(
            Row(name, label, len(circuits), seeds, _estimate(finished), _estimate(progress), time, len(times), lost)
        )
    return rows


def make_matrix(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Kind trained on -> kind driven on -> share of races finished, on unseen circuits."""
    shares = {(row.split, row.set): row.finished.value for row in rows}
    trained = [kind for kind in KINDS if (kind, kind) in shares]
    return {kind: {other: shares[kind, other] for other in KINDS} for kind in trained}


def _estimate(values: Sequence[float], subtracted: Sequence[float] = (0.0,)) -> Estimate:
    """The mean over circuits, minus that over others, with the interval of a bootstrap over both."""
    random = np.random.default_rng(0)  # one for both sets, or equal sizes would draw the same places
    own, other = (np.asarray(each, np.float64) for each in (values, subtracted))
    drawn, less = (each[random.integers(0, len(each), (RESAMPLES, len(each)))].mean(1) for each in (own, other))
    return Estimate(float(own.mean() - other.mean()), *map(float, interval(drawn - less)))
