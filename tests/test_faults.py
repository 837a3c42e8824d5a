"""Faults that tests inject: `KARTRL_FAULTS`; what they do in a run: tests/faults."""

import pytest

from kartrl import faults
from kartrl.errors import UserError


def test_variable_with_unknown_words_names_the_nearest(monkeypatch):
    for words, message in (
        ("trainers-1=raise", "unknown 'trainers'; the nearest valid one is 'trainer'"),
        ("trainer-1=rise@3", "unknown 'rise'; the nearest valid one is 'raise'"),
        ("report=soon", "report=soon has no number"),
        ("predictor=raise@x", "predictor=raise@x has no number"),
        ("reports=1", "unknown 'reports'; the nearest valid one is 'report'"),
    ):
        monkeypatch.setenv("KARTRL_FAULTS", words)
        with pytest.raises(UserError, match=r"^KARTRL_FAULTS: ") as error:
            faults.check()
        assert message in str(error.value)
    monkeypatch.setenv("KARTRL_FAULTS", "trainer-1=raise@3 predictor=pause report=0.2")
    faults.check()


def test_fault_happens_from_its_number_on_at_its_point_alone(monkeypatch):
    monkeypatch.setenv("KARTRL_FAULTS", "evaluator=refuse@2 report=0.2")
    faults.reach("fork_server")
    faults.reach("evaluator")
    for _ in range(2):
        with pytest.raises(BlockingIOError):
            faults.reach("evaluator")
    assert (faults.value("report", 5.0), faults.value("join", 5.0)) == (0.2, 5.0)
    monkeypatch.delenv("KARTRL_FAULTS")
    faults.reach("evaluator")
    assert faults.value("report", 5.0) == 5.0
