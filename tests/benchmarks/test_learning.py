"""What benchmarks say of a run's curves."""

import pytest
from learning import THINNED, steadiness, write_thinned
from time_to_drive import Reached, read


def curve(rewards):
    """Two points in each window of 20,000 steps."""
    return [(0.0, 20_000 * number + part, reward) for number, reward in enumerate(rewards) for part in (2, 19_999)]


def test_collapse_between_good_windows_is_counted_and_timed():
    found = steadiness(curve([-0.01, 0.0, 0.03, *[0.04] * 10, 0.01, 0.0, *[0.04] * 5, 0.015, *[0.04] * 10]))
    assert (found.low, found.collapses, found.longest) == (3, 2, 2)
    assert found.final == pytest.approx(0.04)
    assert found.lowest == 0.0
    assert found.good_after == 60_000, "the third window is the first good one"


def test_thinned_scalars_are_means_over_windows(tmp_path):
    (tmp_path / "run").mkdir()
    rows = [f"{number},{10_000 * number},{THINNED[0]},{number}" for number in range(4)]
    (tmp_path / "run" / "scalars.csv").write_text("\n".join(["seconds,agent_steps,tag,value", *rows]) + "\n")
    write_thinned([tmp_path / "run"], tmp_path / "thinned.csv")
    lines = (tmp_path / "thinned.csv").read_text().splitlines()
    assert lines[1:] == ["run,20000,0.5" + "," * 9, "run,40000,2.5" + "," * 9]


def test_before_the_first_good_window_nothing_counts():
    found = steadiness(curve([0.0] * 10 + [0.04] * 20))
    assert (found.windows, found.low, found.collapses) == (20, 0, 0)


def test_a_run_that_never_got_good_has_no_steadiness():
    assert steadiness([]) is None
    assert steadiness(curve([-0.1] * 30)) is None


def test_first_finished_race_and_majority_are_timed(tmp_path):
    rows = [(100.0 + number, 1000 * number, "a", 1.0, 10, int(number >= 20)) for number in range(100)]
    lines = ["time,agent_steps,level,episodic_return,episodic_length,finished"]
    (tmp_path / "episodes.csv").write_text("\n".join([*lines, *(",".join(map(str, row)) for row in rows)]) + "\n")
    result = read(tmp_path / "episodes.csv", start=90.0)
    assert result.first_race == Reached(30.0, 20_000)
    assert result.most_races == Reached(74.0, 64_000), "the 45th finished episode"
    assert str(Reached()) == "not reached"
