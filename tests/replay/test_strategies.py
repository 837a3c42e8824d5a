"""Strategies and distances by their definitions; the traps of the system from which they are, each as a test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax

from kartrl.replay.distances import make_distance
from kartrl.replay.strategies import choose


@st.composite
def drawings(draw):
    """A number that is wanted, drawn slots, and the distance and count of each slot."""
    number = draw(st.integers(1, 8))
    slots = draw(st.integers(1, 30))
    drawn = np.array(draw(st.lists(st.integers(0, slots - 1), min_size=number, max_size=6 * number)))
    distance = np.array(draw(st.lists(st.integers(0, 9), min_size=slots, max_size=slots)), np.float32)
    count = np.array(draw(st.lists(st.integers(0, 4), min_size=slots, max_size=slots)))
    return number, drawn, distance, count


def slow(strategy, number, drawn, distance, count):
    """By the definitions, in loops; only where enough of those drawn are different."""
    if strategy == 1:
        return sorted(drawn, key=lambda slot: distance[slot])[:number]
    near = sorted(sorted(set(drawn)), key=lambda slot: distance[slot])
    if strategy == 3:
        return sorted(near, key=lambda slot: (count[slot], distance[slot]))[:number]
    size = len(near) // number
    groups = [near[first * size : (first + 1) * size] for first in range(number)]
    return [group[0] if strategy == 2 else min(group, key=lambda slot: count[slot]) for group in groups]


@settings(max_examples=150, deadline=None)
@given(drawing=drawings(), strategy=st.integers(1, 4))
def test_every_strategy_selects_by_its_definition(drawing, strategy):
    number, drawn, distance, count = drawing
    chosen = choose(strategy, number, drawn, distance[drawn], count[drawn])
    assert len(chosen) == number
    assert set(chosen) <= set(drawn)
    if strategy > 1 and len(set(drawn)) < number:  # the original never ends here, or divides by zero
        assert set(drawn) == set(chosen)
        return
    assert chosen.tolist() == [int(slot) for slot in slow(strategy, number, drawn.tolist(), distance, count)]
    if strategy > 1:
        assert len(set(chosen)) == number


def blocks(seed, number=4):
    random = np.random.default_rng(seed)
    return random.normal(size=(2, number, 5, 6)).astype(np.float32)


REFERENCES = {
    "norm": lambda a, b: [np.linalg.norm((x - y).ravel(), 3) for x, y in zip(a, b, strict=True)],
    "cosine": lambda a, b: [
        1 - x.ravel() @ y.ravel() / np.sqrt((x**2).sum() * (y**2).sum()) for x, y in zip(a, b, strict=True)
    ],
    "kl": lambda a, b: rel_entr(softmax(a, 2), softmax(b, 2)).sum((1, 2)),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_distances_equal_their_formulas_and_0_for_same_features(name):
    new, old = blocks(0)
    measure = make_distance(name, 3.0)
    reference = REFERENCES[name](new.astype(np.float64), old.astype(np.float64))
    np.testing.assert_allclose(measure(new, old), reference, rtol=1e-4)
    np.testing.assert_allclose(measure(new, new), 0, atol=1e-6)


@pytest.mark.parametrize("name", REFERENCES)
def test_greater_change_is_a_greater_distance(name):
    """The original sorts by the cosine itself, and so takes what is farthest."""
    old, direction = blocks(1)
    measure = make_distance(name, 2.0)
    distances = [measure(old + size * direction, old) for size in (0.0, 0.1, 0.3, 1.0)]
    assert (np.diff(distances, axis=0) > 0).all()


@pytest.mark.parametrize("name", REFERENCES)
def test_distances_of_nothing_and_of_large_features_are_numbers(name):
    measure, zeros = make_distance(name, 2.0), np.zeros((1, 5, 6), np.float32)
    assert np.isfinite(measure(zeros, zeros)).all()
    assert np.isfinite(measure(zeros + 1000, -1000 * np.eye(5, 6, dtype=np.float32)[None])).all()


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_a_high_norm_of_small_and_large_differences_is_numpys(size):
    new, old = blocks(2)
    expected = [np.linalg.norm((x - y).ravel().astype(np.float64), 16) for x, y in zip(new, old, strict=True)]
    measured = make_distance("norm", 16.0)(np.float32(size) * new, np.float32(size) * old)
    np.testing.assert_allclose(measured, size * np.array(expected), rtol=1e-3)


def test_zero_blocks_have_cosine_distance_0_only_to_each_other():
    zeros, ones = np.zeros((1, 3, 2), np.float32), np.ones((1, 3, 2), np.float32)
    distance = make_distance("cosine", 2.0)
    assert [float(distance(a, b)[0]) for a, b in ((zeros, zeros), (zeros, ones), (ones, zeros))] == [0, 1, 1]
