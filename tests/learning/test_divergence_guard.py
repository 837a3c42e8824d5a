"""Back to good weights after a number of bad updates in a row: once."""

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


def test_the_second_time_the_run_ends_however_much_later():
    guard = DivergenceGuard(2)
    guard.record(False)
    assert guard.record(False) is not None
    for _ in range(100):
        guard.record(True)
    guard.record(False)
    with pytest.raises(
        Diverged, match=r"again after a rollback to good weights; try a smaller optimizer\.learning_rate"
    ):
        guard.record(False)
