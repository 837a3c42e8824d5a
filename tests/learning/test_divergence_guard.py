"""Back to good weights after a number of bad updates in a row, and again after a recovery."""

import pytest

from kartrl.learning.divergence_guard import Diverged, DivergenceGuard


def test_only_bad_updates_in_a_row_are_a_reason_to_go_back():
    guard = DivergenceGuard(3)
    for finite in (False, False, True, False, False, True):
        assert guard.record(finite) is None
        assert guard.healthy is finite
    assert guard.skipped == 4
    assert [guard.record(False) is None for _ in range(3)] == [True, True, False]
    assert guard.healthy, "the weights are those that were good"
    assert guard.skipped == 7


def test_the_reason_is_one_line_that_names_the_number():
    reason = DivergenceGuard(1).record(False)
    assert "1 updates in a row was not finite" in reason
    assert "\n" not in reason


AGAIN = r"again after a rollback to good weights; try a smaller optimizer\.learning_rate"


def test_second_divergence_without_good_state_ends_the_run():
    guard = DivergenceGuard(2)
    guard.saved()
    for finite in (False, False, *[True] * 100, False):
        guard.record(finite)
    with pytest.raises(Diverged, match=AGAIN):
        guard.record(False)


def test_a_good_state_after_enough_finite_updates_is_a_recovery():
    guard = DivergenceGuard(3)

    def burst():
        return [guard.record(False) for _ in range(3)][-1]

    for _ in range(5):
        assert burst() is not None
        assert not guard.armed
        for _ in range(3):
            guard.saved()
            assert not guard.armed
            guard.record(True)
        guard.saved()
        assert guard.armed
    assert burst() is not None
    for finite in (True, True, False, True, True):
        guard.record(finite)
        guard.saved()
    with pytest.raises(Diverged, match=AGAIN):
        burst()


def test_the_workers_of_hogwild_recover_together():
    guard = DivergenceGuard(2)
    assert guard.compare(updates=500, skipped=2, in_a_row=2) is not None
    guard.saved()
    assert guard.compare(updates=501, skipped=2, in_a_row=0) is None
    guard.saved()
    assert not guard.armed
    assert guard.compare(updates=560, skipped=2, in_a_row=0) is None
    guard.saved()
    assert guard.compare(updates=561, skipped=4, in_a_row=2) is not None
    with pytest.raises(Diverged, match=AGAIN):
        guard.compare(updates=562, skipped=6, in_a_row=2)
