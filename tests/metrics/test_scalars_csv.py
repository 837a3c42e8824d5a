"""`scalars.csv`: what is written is read again, whatever a killed run has left."""

from pathlib import Path

import pytest

from kartrl.metrics import scalars_csv
from kartrl.metrics.scalars_csv import NAME, Row, ScalarsTable

HEADER = "seconds,agent_steps,tag,value\n"


def write(folder: Path, first_step: int, *steps: int) -> None:
    table = ScalarsTable(folder, first_step)
    table.open()
    for step in steps:
        table.write(step / 4, step, {"losses/total": 1 / step, 'odd, "tag"': float("nan")})
    table.close()


def test_written_rows_are_read(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, 3)
    assert (tmp_path / NAME).read_text().startswith(HEADER)
    rows = list(scalars_csv.read(tmp_path))
    assert [(row.agent_steps, row.tag) for row in rows] == [
        (s, t) for s in (1, 3) for t in ("losses/total", 'odd, "tag"')
    ]
    assert scalars_csv.values(tmp_path, "losses/total") == [1.0, pytest.approx(1 / 3)]


def test_half_a_line_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    good = "1.50,100,a,2\n"
    (tmp_path / NAME).write_bytes(
        (HEADER + good + "1.6,\n" + "x,1,a,1\n" + "1,1,a,1,1\n").encode() + b"\xff\xff\n2.00,20"
    )
    assert list(scalars_csv.read(tmp_path)) == [Row(1.5, 100, "a", 2.0)]
    assert scalars_csv.come_to(tmp_path)[1] == 100
    write(tmp_path, 100)
    assert (tmp_path / NAME).read_text() == HEADER + good


def test_a_run_without_a_file_has_no_rows(tmp_path: Path) -> None:
    assert list(scalars_csv.read(tmp_path)) == []
    assert scalars_csv.come_to(tmp_path)[1] == 0
    (tmp_path / NAME).write_text(HEADER)
    assert scalars_csv.come_to(tmp_path)[1] == 0


def test_last_step_of_long_file_ignores_late_evaluations(tmp_path: Path) -> None:
    lines = "".join(f"{step}.00,{step},a,1\n" for step in range(10_000))
    (tmp_path / NAME).write_text(HEADER + lines + "10000.00,5000,evaluation/train_return,1\n")
    assert scalars_csv.come_to(tmp_path)[1] == 9_999


def test_rows_beyond_the_checkpoint_are_removed_once(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(HEADER + "5.00,100,a,1\n5.11,100,b,1\n5.20,100,a,1\n6.00,200,a,1\n")
    table = ScalarsTable(tmp_path, first_step=100, first_seconds=5.108)
    table.open()
    table.write(5.3, 150, {"a": 2.0})
    table.open()  # again, as after a failed write: nothing is removed any more
    table.write(9.0, 160, {"a": 3.0})
    table.close()
    rows = [(row.seconds, row.agent_steps, row.value) for row in scalars_csv.read(tmp_path)]
    assert rows == [(5.0, 100, 1.0), (5.11, 100, 1.0), (5.3, 150, 2.0), (9.0, 160, 3.0)]
