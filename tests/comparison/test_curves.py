"""Smooth curves and first times, against slow loops."""

import math

import numpy as np
import pytest

from kartrl.comparison.curves import PLACES, SHARE, Moment, Points, all_reached, places, reached, smooth


def points(*value, minutes=1.0):
    steps = 10.0 * np.arange(1, len(value) + 1)
    return Points(steps, steps * minutes, np.array(value, np.float64))


def test_a_curve_is_the_mean_of_the_stretch_before_each_place():
    random = np.random.default_rng(0)
    x, value, budget = np.sort(random.uniform(100, 1200, 40)), random.normal(size=40), 1000.0
    found = smooth(x, value, budget)
    for place, at in enumerate(places(budget)):
        inside = [v for when, v in zip(x, value, strict=True) if at - SHARE * budget < when <= at]
        before = [v for when, v in zip(x, value, strict=True) if when <= at]
        expected = np.mean(inside) if inside else before[-1] if before else math.nan
        assert found[place] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert np.isnan(found[0])
    assert len(found) == PLACES


def test_where_nothing_happens_for_long_a_curve_stays():
    found = smooth(np.array([1.0, 2.0]), np.array([5.0, 7.0]), 1000.0)
    assert (found[1:5] == [6, 6, 6, 6]).all()
    assert found[-1] == 7.0


def test_an_update_beyond_the_window_counts_with_all_episodes():
    steps = np.array([100.0, 100.0, 800.0, 800.0, 800.0, 1100.0])  # of large updates: none in the last tenth
    assert smooth(steps, np.array([1.0, 3.0, 9.0, 7.0, 2.0, 50.0]), 1000.0)[-1] == 6.0


def test_something_is_reached_when_a_mean_of_so_many_is():
    assert reached(points(0, 4, 0, 0, 2, 2, 9), 2.0, 2) == Moment(20.0, 20.0)
    assert reached(points(0, 3, 0, 0, 2, 2, 9), 2.0, 2) == Moment(60.0, 60.0)
    assert reached(points(0, 3), 2.0, 2) is None
    assert reached(points(9), 2.0, 2) is None, "one episode is no mean of two"
    for value in (-13, 0.93, -0.83):  # NumPy's mean of a hundred times 0.93 is less
        assert reached(points(*[value] * 100), value, 100) == Moment(1000.0, 1000.0)


def test_all_are_reached_with_the_last():
    assert all_reached([points(0, 1, 0), points(1, 0, 1)], 1.0) == Moment(20.0, 20.0)
    assert all_reached([points(0, 1, 0), points(0, 0, 0)], 1.0) is None
    assert all_reached([], 1.0) is None
