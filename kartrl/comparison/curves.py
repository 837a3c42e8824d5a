"""A run's metric over agent steps or minutes, made smooth and put on places that runs share."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PLACES = 100  # of a curve
SHARE = 0.1  # of the budget: how long a stretch each place is the mean of


class Points(NamedTuple):
    """All values of a metric in a run, in order; float64 [P] each."""

    steps: np.ndarray
    minutes: np.ndarray
    value: np.ndarray


class Moment(NamedTuple):
    """When something came about in a run."""

    minutes: float
    steps: float


def places(budget: float) -> np.ndarray:
    """Where a curve has its values, float64 [PLACES], up to the budget, in agent steps or minutes."""
    return np.linspace(budget / PLACES, budget, PLACES)


def smooth(x: np.ndarray, value: np.ndarray, budget: float) -> np.ndarray:
    """At each of `places`, the mean over the stretch before it, or the last value where that is empty.

    Args:
        x: agent steps or minutes, float64 [P].
        value: float64 [P].

    Returns:
        float64 [PLACES], NaN before the first value. Its last number is the run's score within the budget.
    """
    order = np.argsort(x, kind="stable")
    x, total = x[order], np.concatenate([[0.0], np.cumsum(value[order])])
    end = np.searchsorted(x, places(budget), "right")
    begin = np.minimum(np.searchsorted(x, places(budget) - SHARE * budget, "right"), np.maximum(end - 1, 0))
    count = end - begin
    return np.where(count > 0, (total[end] - total[begin]) / np.maximum(count, 1), np.nan)


def reached(points: Points, least: float, count: int) -> Moment | None:
    """When the mean of the last `count` values first was at least that; None: never."""
    if len(points.value) < count:
        return None
    good = np.flatnonzero(np.convolve(points.value, np.full(count, 1 / count), "valid") >= least)
    return _moment(points, int(good[0]) + count - 1) if len(good) else None


def all_reached(metrics: Sequence[Points], least: float) -> Moment | None:
    """By when each of these had once been at least that; None: one never was, or there are none."""
    firsts = [reached(points, least, 1) for points in metrics]
    return max((first for first in firsts if first is not None), default=None) if all(firsts) else None


def _moment(points: Points, index: int) -> Moment:
    return Moment(float(points.minutes[index]), float(points.steps[index]))
