"""Statistics of the report, computed from episodes. Pure functions."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from scipy import stats

from kartrl.kart.circuits import LAPS
from kartrl.kart.generalisation.splits import SEEN

CONFIDENCE = 0.95
MEASURES = ("finished", "progress", "lap_time")


class Figure(NamedTuple):
    """A measure's mean over seeds and, for two or more seeds, its 95 % confidence interval by Student's t."""

    mean: float
    low: float | None
    high: float | None
    seeds: tuple[float, ...]  # values of the seeds


class Row(NamedTuple):
    """A set of circuits of a split, or of all folds of a family."""

    split: str
    set: str
    circuits: int
    finished: Figure  # fraction of races finished
    progress: Figure  # fraction of the race's five laps driven
    lap_time: Figure | None  # median lap time relative to the scripted driver's, over circuits with a lap; None: no lap
    timed: int  # circuits with a lap in any run


def circuit_measures(episodes: Sequence[Mapping[str, Any]], reference: float | None) -> dict[str, float | None]:
    """Measures of a policy on a circuit.

    Args:
        reference: the scripted driver's lap time, seconds.
    """
    laps = [lap for episode in episodes for lap in episode["lap_times"]]
    return {
        "finished": fmean(episode["finished"] for episode in episodes),
        "progress": fmean(min(1.0, episode["progress"] / LAPS) for episode in episodes),
        "lap_time": median(laps) / reference if laps and reference else None,
    }


def figure(values: Sequence[float], bounds: tuple[float, float] = (0.0, math.inf)) -> Figure:
    """Mean and confidence interval of a measure, from one value per seed.

    Args:
        bounds: range of the measure, to which the interval is clipped.
    """
    mean, (lowest, highest) = fmean(values), bounds
    if len(values) < 2:
        return Figure(mean, None, None, tuple(values))
    error = float(stats.sem(values))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return Figure(mean, max(lowest, mean - half), min(highest, mean + half), tuple(values))


def rows(results: Sequence[Mapping[str, Any]], reference: Mapping[str, float | None]) -> list[Row]:
    """A row per set of each split, and per set of each family of several folds.

    Args:
        results: contents of the runs' `result.json`: split, seed and circuits.
        reference: circuit -> the scripted driver's lap time, seconds.
    """
    splits: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        splits.setdefault(result["split"], []).append(result)
    families: dict[str, list[str]] = {}
    for name in splits:
        families.setdefault(name.partition("-")[0], []).append(name)
    table = []
    for family, names in families.items():
        table += [row for name in names for row in _set_rows(name, [splits[name]], reference)]
        if len(names) > 1:
            table += _set_rows(family, [splits[name] for name in names], reference)
    return table


def _set_rows(
    name: str, folds: Sequence[Sequence[Mapping[str, Any]]], reference: Mapping[str, float | None]
) -> list[Row]:
    """Rows of several folds combined, for the seeds that all of them have."""
    by_seed = [{result["seed"]: result["circuits"] for result in fold} for fold in folds]
    seeds = sorted(set.intersection(*(set(fold) for fold in by_seed)))
    if not seeds:
        return []
    labels = list(
        dict.fromkeys(member["set"] for fold in by_seed for circuits in fold.values() for member in circuits.values())
    )
    table = []
    for label in labels:
        # [seed][circuit of any fold]
        measures = [
            [
                (circuit, circuit_measures(member["episodes"], reference.get(circuit)))
                for fold in by_seed
                for circuit, member in fold[seed].items()
                if member["set"] == label
            ]
            for seed in seeds
        ]
        values = {
            key: [[value for _, one in seed if (value := one[key]) is not None] for seed in measures]
            for key in MEASURES
        }
        times = [fmean(seed) for seed in values["lap_time"] if seed]
        table.append(
            Row(
                name,
                label,
                len({circuit for circuit, _ in measures[0]}),
                figure([fmean(seed) for seed in values["finished"]], (0.0, 1.0)),
                figure([fmean(seed) for seed in values["progress"]], (0.0, 1.0)),
                figure(times) if times else None,
                len({circuit for seed in measures for circuit, one in seed if one["lap_time"] is not None}),
            )
        )
    return table


def gaps(results: Sequence[Mapping[str, Any]], reference: Mapping[str, float | None]) -> dict[str, dict[str, Figure]]:
    """Generalisation gap, paired by seed: split -> unseen set -> races finished, trained on minus unseen."""
    table = rows(results, reference)
    lost: dict[str, dict[str, Figure]] = {}
    for row in table:
        seen = next(other for other in table if other.split == row.split and other.set == SEEN)
        if row.set != SEEN:
            pairs = zip(seen.finished.seeds, row.finished.seeds, strict=True)
            lost.setdefault(row.split, {})[row.set] = figure([one - other for one, other in pairs], (-1.0, 1.0))
    return lost
