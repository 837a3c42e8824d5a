"""The terminal's panel and lines, with few circuits and with very many."""

import io
import re

from rich.console import Console

from kartrl.config import Config
from kartrl.config.levels import CIRCUITS, KINDS, random_name
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import GymnasiumWorld
from kartrl.kart.world import KartWorld, Race
from kartrl.learning.counters import Counters
from kartrl.metrics.records import EpisodeRecord
from kartrl.metrics.terminal import Display, Status

STATUS = Status(Counters(50_000, 600, 120, 30.0), 0.5, 30.0, 1500.0, 9.0, 4.0, 1.5, 2)


def record(circuit, use="train", evaluated=False, finished=True):
    details = Race(5.0, (20.0,) * 5) if finished else Race(1.0, ())
    return EpisodeRecord(
        0,
        Episode(900, 50.0, finished, circuit, use, details),
        evaluated,
    )


def shown(records, terminal=True, world=None):
    """What is on a terminal of 110 columns and 40 rows in the end."""
    console = Console(file=io.StringIO(), width=110, height=40, force_terminal=terminal, color_system=None)
    with Display(console, "run", world or KartWorld(Config())) as display:
        for one in records:
            display.add(one)
        display.show(STATUS, final=True)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return text.rsplit("╭", 1)[-1].splitlines()


def test_a_few_circuits_have_a_row_each():
    lines = shown([record("MarioCircuit.Act1"), record("MarioCircuit.Act4", "test", evaluated=True)])
    assert any(re.search(r"MarioCircuit\.Act1 +50\.00 +5\.00 +100% +20\.00 s +-", line) for line in lines)
    assert any(re.search(r"MarioCircuit\.Act4 \(unseen\).*finished in 100\.0 s", line) for line in lines)


def test_twenty_circuits_have_rows_by_kind():
    lines = shown([record(name, finished=name < "M") for name in CIRCUITS])
    assert any(re.search(r"DonutPlains, 3 .*100%", line) for line in lines)
    assert any(re.search(r"MarioCircuit, 4 .*0%", line) for line in lines)
    assert any(re.search(r"all 20 +.*65%", line) for line in lines)
    assert not any("Act" in line for line in lines)


def test_hundreds_of_circuits_stay_readable():
    trained = [record(random_name(number, None)) for number in range(100)]
    unseen = [
        record(random_name(number, None), "test", evaluated=True, finished=number % 2 == 0)
        for number in range(100, 200)
    ]
    lines = shown([*trained, *unseen])
    assert len(lines) < 30
    assert all(len(line) <= 110 for line in lines)
    for kind in KINDS:
        assert sum(f"random.{kind}, " in line for line in lines) == 2, kind
    assert any(re.search(r"all 100 \(unseen\).*50 of 100 finished", line) for line in lines)


def test_more_groups_than_rows_are_put_together():
    lines = shown([record(f"{group:03}.Act{act}") for group in range(40) for act in range(2)])
    assert len(lines) < 12
    assert any("all 80" in line for line in lines)


def test_where_not_all_groups_have_room_those_trained_on_do():
    unseen = [record(f"{group:03}.Act1", "test", evaluated=True) for group in range(16)]
    lines = shown([*(record(random_name(number, None)) for number in range(16)), *unseen])
    assert sum("random." in line for line in lines) == 8
    assert sum("unseen" in line for line in lines) == 1


def test_a_line_stays_a_line_with_many_circuits():
    records = [record(random_name(number, None), finished=number < 25) for number in range(100)]
    (line,) = shown([*records, record("Monza", "test", evaluated=True)], terminal=False)
    assert "finished 25% on 100 circuits, unseen: finished in 100.0 s" in line
    assert len(line) < 250


def test_without_circuits():
    records = [EpisodeRecord(0, Episode(length, value, True), False) for length, value in ((10, 3.0), (20, 4.0))]
    lines = shown(records, world=GymnasiumWorld(Config()))
    assert any(re.search(r"episodes +3\.50 +15\.00", line) for line in lines)
