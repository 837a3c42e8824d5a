"""rliable's measures against slow references in float64."""

import itertools

import numpy as np
import pytest
from scipy import stats

from kartrl.comparison.statistics import (
    estimate_iqm,
    interquartile_mean,
    mean_band,
    performance_profile,
    probability_of_improvement,
)


def random_scores(*sizes):
    random = np.random.default_rng(sum(sizes))
    return [np.round(random.normal(size=size), 1) for size in sizes]  # rounded: there are ties


def new():
    return np.random.default_rng(0)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_a_mean_with_a_quarter_trimmed(count):
    (values,) = random_scores(count)
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), abs=1e-12)


def slow_interval(scores, measure, resamples=4000):
    """Runs drawn anew within each task, one at a time."""
    random = np.random.default_rng(1)
    drawn = [
        measure([[task[random.integers(len(task))] for _ in range(len(task))] for task in scores])
        for _ in range(resamples)
    ]
    return np.percentile(drawn, [2.5, 97.5])


def test_the_interval_is_that_of_a_stratified_bootstrap():
    scores = random_scores(6, 9)
    estimate = estimate_iqm(scores, new())
    low, high = slow_interval(scores, lambda drawn: stats.trim_mean(np.concatenate(drawn), 0.25))
    assert estimate.value == pytest.approx(stats.trim_mean(np.concatenate(scores), 0.25))
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=0.06), pytest.approx(high, abs=0.06))


def test_runs_are_never_drawn_from_another_task():
    assert estimate_iqm([np.full(4, 1.0), np.full(4, 9.0)], new()) == (5.0, 5.0, 5.0)


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    scores, thresholds = random_scores(3, 5), np.array([-9.0, -0.3, 0.0, 0.5, 9.0])
    band = performance_profile(scores, thresholds, new())
    everything = np.concatenate(scores)
    assert band.value.tolist() == [sum(score > at for score in everything) / 8 for at in thresholds]
    for place, at in enumerate(thresholds):
        interval = slow_interval(scores, lambda drawn, at=at: np.mean(np.concatenate(drawn) > at))
        np.testing.assert_allclose([band.low[place], band.high[place]], interval, atol=0.13)  # an eighth: one run


def test_improvement_probability_is_the_share_of_pairs_won():
    first, second = random_scores(4, 6), random_scores(5, 7)
    estimate = probability_of_improvement(first, second, new())
    shares = []
    for one, other in zip(first, second, strict=True):
        pairs = list(itertools.product(one, other))
        share = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)
        assert share == pytest.approx(stats.mannwhitneyu(one, other).statistic / len(pairs))
        shares.append(share)
    assert estimate.value == pytest.approx(sum(shares) / 2, abs=1e-12)
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1
    back = probability_of_improvement(second, first, new())
    assert back.value == pytest.approx(1 - estimate.value)
    assert probability_of_improvement(first, first, new()).value == pytest.approx(0.5)


def test_a_band_holds_the_mean_and_is_unknown_where_a_curve_is():
    curves = np.array([[np.nan, 1.0, 4.0], [2.0, 3.0, 4.0]])
    band = mean_band(curves, new())
    assert band.value.tolist()[1:] == [2.0, 4.0]
    assert (band.low[1], band.high[1]) == (1.0, 3.0)
    assert (band.low[2], band.high[2]) == (4.0, 4.0)
    assert np.isnan([band.value[0], band.low[0], band.high[0]]).all()
