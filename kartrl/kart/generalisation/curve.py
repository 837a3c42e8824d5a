"""Races finished by number and by kind of the training circuits. Pure functions of the results."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from kartrl.comparison.statistics import RESAMPLES, interval
from kartrl.config.levels import KINDS
from kartrl.kart.generalisation.figures import circuit_measures
from kartrl.kart.generalisation.splits import COUNTS, SEEN, UNSEEN

Results = Sequence[Mapping[str, Any]]  # contents of the runs' `result.json`


class Estimate(NamedTuple):
    """A mean over circuits, and its 95 % percentile interval from a bootstrap over circuits."""

    mean: float
    low: float
    high: float


class Point(NamedTuple):
    """Results of policies trained on a given number of generated circuits."""

    circuits: int
    seeds: int
    seen: Estimate  # share of races finished on training circuits
    unseen: Estimate  # on unseen circuits
    gap: Estimate
    lap_seen: float | None  # mean over circuits of the lap time / scripted driver's; None: no lap
    lap_unseen: float | None


def make_curve(results: Results, reference: Mapping[str, float | None]) -> list[Point]:
    """A point for each number of training circuits, in ascending order.

    Args:
        reference: circuit -> the scripted driver's lap time, seconds.
    """
    points = []
    for count in COUNTS:
        runs = [result for result in results if result["split"] == f"random{count}"]
        seen, unseen = (_by_circuit(runs, label, reference) for label in (SEEN, UNSEEN))
        if seen and unseen:
            random = np.random.default_rng(0)  # one for both sets, or equal sizes would draw the same places
            drawn = [_resampled([finished for finished, _ in each], random) for each in (seen, unseen)]
            means = [fmean(finished for finished, _ in each) for each in (seen, unseen)]
            laps = [[lap for _, lap in each if lap is not None] for each in (seen, unseen)]
            points.append(
                Point(
                    count,
                    len(runs),
                    _estimate(means[0], drawn[0]),
                    _estimate(means[1], drawn[1]),
                    _estimate(means[0] - means[1], drawn[0] - drawn[1]),
                    *(fmean(each) if each else None for each in laps),
                )
            )
    return points


def make_matrix(results: Results) -> dict[str, dict[str, float]]:
    """Kind trained on -> kind driven on -> share of races finished, on unseen circuits."""
    matrix: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        runs = [result for result in results if result["split"] == kind]
        row = {other: [finished for finished, _ in _by_circuit(runs, other, {})] for other in KINDS}
        if all(row.values()):
            matrix[kind] = {other: fmean(shares) for other, shares in row.items()}
    return matrix


def _by_circuit(runs: Results, label: str, reference: Mapping[str, float | None]) -> list[tuple[float, float | None]]:
    """Share of races finished and relative lap time for each circuit of a set, means over the runs."""
    measured: dict[str, list[dict[str, float | None]]] = {}
    for run in runs:
        for circuit, member in run["circuits"].items():
            if member["set"] == label:
                measured.setdefault(circuit, []).append(circuit_measures(member["episodes"], reference.get(circuit)))
    means = []
    for each in measured.values():
        laps = [lap for one in each if (lap := one["lap_time"]) is not None]
        means.append((fmean(one["finished"] or 0.0 for one in each), fmean(laps) if laps else None))
    return means


def _resampled(values: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Means over resampled circuits, float64 [RESAMPLES]."""
    own = np.asarray(values, np.float64)
    drawn = random.integers(0, len(own), (RESAMPLES, len(own)))
    return np.asarray(own[drawn].mean(1))


def _estimate(mean: float, drawn: np.ndarray) -> Estimate:
    return Estimate(mean, *map(float, interval(drawn)))
