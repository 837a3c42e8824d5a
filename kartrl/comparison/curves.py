"""A run's metric over agent steps or minutes, smoothed and resampled to points common to all runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PLACES = 100  # points of a curve
SHARE = 0.1  # of the budget: length of the window that each point averages
ROUNDING = 1e-9  # relative: the mean of a hundred times 0.93 is less than 0.93


class Points(NamedTuple):
    """All values of a metric in a run, in order; float64 [P] each."""

    steps: np.ndarray
    minutes: np.ndarray
    value: np.ndarray


class Moment(NamedTuple):
    """When something happened in a run."""

    minutes: float
    steps: float


def places(budget: float) -> np.ndarray:
    """The points at which a curve is evaluated, float64 [PLACES], up to the budget, in agent steps or minutes."""
    return np.linspace(budget / PLACES, budget, PLACES)


def smooth(x: np.ndarray, value: np.ndarray, budget: float) -> np.ndarray:
    """At each of `places`, the mean over the window before it or, if that is empty, of the last moment with values.

    Args:
        x: agent steps or minutes, float64 [P].
        value: float64 [P].

    Returns:
        float64 [PLACES], NaN before the first value. The last one is the run's score within the budget.
    """
    order = np.argsort(x, kind="stable")
    x, total = x[order], np.concatenate([[0.0], np.cumsum(value[order])])
    end = np.searchsorted(x, places(budget), "right")
    latest = np.searchsorted(x, x[np.maximum(end - 1, 0)], "left")  # episodes of one update have its agent steps
    begin = np.minimum(np.searchsorted(x, places(budget) - SHARE * budget, "right"), latest)
    count = end - begin
    return np.where(count > 0, (total[end] - total[begin]) / np.maximum(count, 1), np.nan)


def reached(points: Points, least: float, count: int) -> Moment | None:
    """When the mean of the last `count` values was at least `least` for the first time; None if never."""
    if len(points.value) < count:
        return None
    means = np.convolve(points.value, np.ones(count), "valid") / count
    good = np.flatnonzero(means >= least - ROUNDING * abs(least))
    if not len(good):
        return None
    index = int(good[0]) + count - 1
    return Moment(float(points.minutes[index]), float(points.steps[index]))


def all_reached(metrics: Sequence[Points], least: float) -> Moment | None:
    """When all of these had been at least `least` once; None if one never was, or there are none."""
    firsts = [reached(points, least, 1) for points in metrics]
    return max((first for first in firsts if first is not None), default=None) if all(firsts) else None
