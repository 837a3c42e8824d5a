"""`episodes.csv`: a row for each training episode."""

from pathlib import Path

from kartrl.envs.episode import Episode
from kartrl.metrics import episodes_csv
from kartrl.metrics.episodes_csv import NAME, EpisodesTable


def test_episodes_are_read_as_they_were_written_and_later_ones_go_on_a_resume(tmp_path: Path) -> None:
    table = EpisodesTable(tmp_path, 0)
    table.open()
    for step in (100, 200, 300):
        table.write(step, Episode(step // 10, step / 8, step > 100, "A, odd", "train"))
    table.close()
    rows = list(episodes_csv.read(tmp_path))
    assert [(row.agent_steps, row.episodic_return, row.episodic_length, row.finished) for row in rows] == [
        (100, 12.5, 10, 0),
        (200, 25.0, 20, 1),
        (300, 37.5, 30, 1),
    ]
    assert {row.level for row in rows} == {"A, odd"}
    assert 0 <= float(rows[2].time) - float(rows[0].time) < 60
    table = EpisodesTable(tmp_path, 200)
    table.open()
    table.close()
    assert list(episodes_csv.read(tmp_path)) == rows[:2]
    with (tmp_path / NAME).open("a") as file:
        file.write("1.0,400,1,half")
    assert list(episodes_csv.read(tmp_path)) == rows[:2]
