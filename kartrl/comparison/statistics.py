"""The measures of rliable (arXiv:2108.13264) with stratified bootstrap intervals.

Scores are one float64 array [N] per task: one number for each of N runs, which differ in their seeds. The bootstrap
resamples runs within each task. N may differ between tasks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Scores = Sequence[np.ndarray]
RESAMPLES = 2000
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A measure and its 95 % percentile interval."""

    value: float
    low: float
    high: float


class Band(NamedTuple):
    """A measure at K points, and its 95 % percentile intervals."""

    value: np.ndarray  # float64 [K]
    low: np.ndarray
    high: np.ndarray


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis without its lowest and highest quarter, rounded down: of all, if there are 1 to 3."""
    count = values.shape[-1]
    cut = count // 4
    return np.asarray(np.sort(values, axis=-1)[..., cut : count - cut].mean(-1))


def estimate_iqm(scores: Scores, random: np.random.Generator) -> Estimate:
    """The interquartile mean over the runs of all tasks, whose scores must be on one scale."""
    drawn = interquartile_mean(np.concatenate(_resample(scores, random), axis=1))
    return Estimate(float(interquartile_mean(np.concatenate(scores))), *map(float, interval(drawn)))


def estimate_gain(first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> Estimate:
    """The interquartile mean of the scores `first` less that of `second`, float64 [N] and [M]."""
    drawn = [interquartile_mean(scores) for scores in _resample([first, second], random)]
    value = float(interquartile_mean(first) - interquartile_mean(second))
    return Estimate(value, *map(float, interval(drawn[0] - drawn[1])))


def performance_profile(scores: Scores, thresholds: np.ndarray, random: np.random.Generator) -> Band:
    """Fraction of the runs of all tasks whose score is above each threshold, float64 [K]."""
    drawn = np.sort(np.concatenate(_resample(scores, random), axis=1), axis=1)
    below = np.array([np.searchsorted(row, thresholds, "right") for row in drawn])
    return Band(_share_above(np.concatenate(scores), thresholds), *interval(1 - below / drawn.shape[1]))


def probability_of_improvement(first: Scores, second: Scores, random: np.random.Generator) -> Estimate:
    """Probability that a run of `first` scores higher than one of `second` on the same tasks, ties counting one half.

    The mean over tasks of the Mann-Whitney U / (N M).
    """
    drawn = [
        _share_won(one, other) for one, other in zip(_resample(first, random), _resample(second, random), strict=True)
    ]
    value = np.mean([_share_won(one[None], other[None]) for one, other in zip(first, second, strict=True)])
    return Estimate(float(value), *map(float, interval(np.mean(drawn, axis=0))))


def mean_band(curves: np.ndarray, random: np.random.Generator) -> Band:
    """The mean of N curves [N, K]; NaN where any of them is."""
    chosen = random.integers(0, len(curves), (RESAMPLES, len(curves)))
    return Band(curves.mean(0), *interval(curves[chosen].mean(1)))


def mean_interval(values: np.ndarray) -> tuple[float, float] | None:
    """The 95 % interval of the mean of these values, float [N]; None for a single one."""
    band = mean_band(values[:, None], np.random.default_rng(0))
    return (float(band.low[0]), float(band.high[0])) if len(values) > 1 else None


def _resample(scores: Scores, random: np.random.Generator) -> list[np.ndarray]:
    """Runs drawn with replacement: for each task [RESAMPLES, N]."""
    return [task[random.integers(0, len(task), (RESAMPLES, len(task)))] for task in scores]


def interval(drawn: np.ndarray) -> np.ndarray:
    """The bounds [2, ...] that contain 95 % of the measures [RESAMPLES, ...]."""
    outside = (1 - CONFIDENCE) / 2
    return np.quantile(drawn, [outside, 1 - outside], axis=0)


def _share_above(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return np.asarray((values > thresholds[:, None]).mean(1))


def _share_won(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Fraction of pairs of `first` [..., N] and `second` [..., M] that `first` wins; ties count one half."""
    one, other = first[..., :, None], second[..., None, :]
    return np.asarray(((one > other) + 0.5 * (one == other)).mean((-2, -1)))
