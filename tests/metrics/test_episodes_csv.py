"""`episodes.csv`: a row for each training episode."""

from pathlib import Path

from kartrl.envs.episode import Episode
from kartrl.metrics import episodes_csv
from kartrl.metrics.episodes_csv import NAME, EpisodesTable
from kartrl.metrics.records import EpisodeRecord


def test_episodes_are_read_as_written_and_cut_on_resume(tmp_path: Path) -> None:
    table = EpisodesTable(tmp_path, 0)
    table.open()
    for step in (100, 200, 300):
        episode = Episode(step // 10, step / 8, step > 100, "A, odd", "train")
        table.write(EpisodeRecord(step, episode, False, step / 50, 1.7e9 + step))
    table.close()
    rows = list(episodes_csv.read(tmp_path))
    assert [(row.agent_steps, row.episodic_return, row.episodic_length, row.finished) for row in rows] == [
        (100, 12.5, 10, 0),
        (200, 25.0, 20, 1),
        (300, 37.5, 30, 1),
    ]
    assert {row.level for row in rows} == {"A, odd"}
    assert [(row.seconds, row.time) for row in rows] == [
        (2.0, "1700000100.00"),
        (4.0, "1700000200.00"),
        (6.0, "1700000300.00"),
    ]
    table = EpisodesTable(tmp_path, 200)
    table.open()
    table.close()
    assert list(episodes_csv.read(tmp_path)) == rows[:2]
    with (tmp_path / NAME).open("a") as file:
        file.write("1.0,400,1,half")
    assert list(episodes_csv.read(tmp_path)) == rows[:2]
