"""The terminal's panel and lines, with few circuits and with very many."""

import io
import re

import pytest
from commands import ROOT
from rich.console import Console

from kartrl.commands.shared.progress import Progress
from kartrl.config import Config, read
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import GymnasiumWorld, load_world
from kartrl.kart.levels import CIRCUITS, KINDS, random_name
from kartrl.kart.race_world import Race
from kartrl.kart.world import KartWorld
from kartrl.learning.counters import Counters
from kartrl.metrics.records import EpisodeRecord
from kartrl.metrics.tables import Line, fitted, make_console
from kartrl.metrics.terminal import Display, Status

STATUS = Status(Counters(50_000, 600, 120, 30.0), 0.5, 30.0, 1500.0, 9.0, 4.0, 1.5, 2)


def record(circuit, use="train", evaluated=False, finished=True, at=50_000):
    details = Race(5.0, (20.0,) * 5) if finished else Race(1.0, ())
    return EpisodeRecord(
        at,
        Episode(900, 50.0, finished, circuit, use, details),
        evaluated,
    )


def shown(records, terminal=True, world=None, status=STATUS, width=110, environment=None, plain=False):
    """What is on a terminal of so many columns and 40 rows in the end."""
    console = Console(
        file=io.StringIO(),
        width=width,
        height=40,
        force_terminal=terminal,
        color_system=None,
        _environ=environment or {},
    )
    with Display(console, "run", world or KartWorld(Config()), plain) as display:
        for one in records:
            display.add(one)
        display.show(status, final=True)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return text.rsplit("╭", 1)[-1].splitlines()


def test_a_few_circuits_have_a_row_each():
    lines = shown([record("MarioCircuit.Act1"), record("MarioCircuit.Act4", "test", evaluated=True)])
    assert any(re.search(r"MarioCircuit\.Act1 +- +100% +20\.00 s +5\.00 +50\.00", line) for line in lines)
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


def test_names_are_neither_emoji_nor_markup(capsys):
    name = "mine:Snake: [red]a[/red]"
    console = make_console(force_terminal=True, color_system=None, width=100)
    world = GymnasiumWorld(Config())
    with Display(console, name, world) as display:
        display.say(name)
        display.add(EpisodeRecord(0, Episode(10, 3.0, True, name, "train"), False))
        display.show(STATUS, final=True)
    with Progress(console, None) as progress:
        progress.tell(name)
    console.print(fitted(name, [name], [[Line(name, [name])]], 100, None))
    lines = [line for line in capsys.readouterr().out.splitlines() if "Snake" in line or "\N{SNAKE}" in line]
    assert len(lines) >= 5, "a line, a panel's title, its table, a bar, and a table's heading and row"
    assert all(name in line for line in lines), lines


def test_every_console_is_made_by_the_function_for_it():
    """What it prints would have emoji in place of parts of ids, as would the description of a progress bar."""
    made = re.compile(r"\b(?:Console|Terminal)\(|TextColumn\((?!.*markup=False)|\bPanel\((?!.*title=Text)")
    files = [file for folder in ("kartrl", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    texts = {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in files}
    users = {file: text for file, text in texts.items() if re.search(r"^ *(?:from|import) rich", text, re.MULTILINE)}
    found = {
        f"{file}: {line.strip()}" for file, text in users.items() for line in text.splitlines() if made.search(line)
    }
    assert found == {
        "kartrl/metrics/tables.py: return Console(emoji=False, markup=False, **options)",
        "benchmarks/terminal_picture.py: console = Console(record=True, width=COLUMNS, file=nowhere)",
    }, "the second one prints a picture"


@pytest.mark.parametrize("terminal", [True, False])
def test_stuck_run_is_shown_as_stuck(terminal):
    text = "\n".join(shown([], terminal, status=STATUS._replace(stuck=34.4)))
    assert "stuck for 34 s" in text
    assert "stuck" not in "\n".join(shown([], terminal))


NARROW = 80


def test_narrow_terminal_shortens_shared_parts_of_names():
    train = [record(f"MarioCircuit.Act{act}") for act in (1, 2, 3)]
    lines = shown([*train, record("MarioCircuit.Act4", "test", evaluated=True)], width=NARROW)
    assert all(len(line) <= NARROW for line in lines)
    assert any(re.search(r"MarioCircuit +last evaluation", line) for line in lines)
    for act in (1, 2, 3):
        assert any(re.search(rf"│  Act{act} +- +100% +20\.00 s +5\.00 +50\.00", line) for line in lines)
    assert any(re.search(r"Act4 \(unseen\) +finished in 100\.0 s", line) for line in lines)


def test_a_narrow_terminal_drops_columns_but_no_name():
    names = ("BowserCastle.Act1", "MarioCircuit.Act2", "VanillaLake.Act1")
    for width in (NARROW, 60, 40):
        lines = shown([record(name, "test", evaluated=True) for name in names], width=width)
        assert all(len(line) <= width for line in lines)
        assert all(any(f"{name} (unseen)" in line for line in lines) for name in names)
        assert not any("…" in line for line in lines if "Act" in line)


def test_a_dumb_terminal_gets_lines():
    (line,) = shown([record("MarioCircuit.Act1")], environment={"TERM": "dumb"})
    assert "50,000 agent steps" in line


def test_mean_return_is_of_the_newest_counted_episodes():
    world = GymnasiumWorld(Config())
    returns = [EpisodeRecord(0, Episode(9, value, True), False) for value in (0.0,) * 20 + (500.0,) * 100]
    (line,) = shown(returns, terminal=False, world=world)
    assert "return 500.00 over the last 100 of 120 episodes" in line
    (line,) = shown([], terminal=False, world=world)
    assert "return - over the last 0 of 120 episodes" in line, "those before a resume"


def test_runs_that_share_an_output_are_distinguished():
    lines = shown([record("MarioCircuit.Act1")], plain=True)
    assert lines
    assert all(line.startswith("run | ") for line in lines)


def summary(records, world=None, status=STATUS):
    display = Display(Console(file=io.StringIO()), "run", world or KartWorld(Config()))
    for one in records:
        display.add(one)
    display.show(status, final=True)
    return display.summary()


def test_the_summary_of_a_run():
    laps = [record("MarioCircuit.Act1", evaluated=True), record("MarioCircuit.Act4", "test", evaluated=True)]
    done = STATUS._replace(fraction=1.0)
    assert summary(laps, status=done) == "finished after 0:30, 50,000 steps, all circuits finished, best lap 20.00 s"
    laps.append(record("MarioCircuit.Act2", evaluated=True, finished=False))
    assert summary(laps) == "stopped after 0:30, 50,000 steps, 2 of 3 circuits finished, best lap 20.00 s"
    plain = GymnasiumWorld(read(overrides=["environment.id=CartPole-v1"]))
    episode = Episode(10, 3.5, True)
    assert summary([EpisodeRecord(0, episode, False)], plain) == "stopped after 0:30, 50,000 steps, return 3.50"
    assert summary([EpisodeRecord(50_000, episode, True)], plain).endswith("return 3.50 in the last evaluation")
    newest = ((1, 90.0), (50_000, 1.0), (50_000, 2.0))
    several = [EpisodeRecord(step, Episode(10, value, True), True) for step, value in newest]
    assert summary(several, plain).endswith("return 1.50 in the last evaluation"), "all episodes of the newest"
    laps.append(record("MarioCircuit.Act2", evaluated=True))
    assert "3 of 4 races finished" in summary(laps)


def test_summary_counts_what_the_newest_checkpoint_drove():
    """Twenty test circuits take turns, eight at a time: earlier turns were of earlier checkpoints."""
    world = KartWorld(load_world(read(overrides=["levels.*=test", "kart.game=bundled"])).prepare())
    turns = [(1000, CIRCUITS[:8], False), (2000, CIRCUITS[8:16], True), (3000, CIRCUITS[16:] + CIRCUITS[:4], True)]
    records = [
        record(name, "test", evaluated=True, finished=finished and name != CIRCUITS[0], at=step)
        for step, names, finished in turns
        for name in names
    ]
    told = "7 of 8 circuits finished (8 of 20 unseen circuits driven), best lap 20.00 s"
    assert summary(records, world) == f"stopped after 0:30, 50,000 steps, {told}, evaluated at 3,000 steps"
    lines = shown(records, world=world)
    assert any(re.search(r"all 20 \(unseen\) +7 of 8 finished", line) for line in lines)
    (line,) = shown(records, terminal=False, world=world)
    assert "on 0 circuits, unseen: 7 of 8 finished" in line
    everything = [record(name, "test", evaluated=True, at=50_000) for name in CIRCUITS]
    assert summary([*records, *everything], world).endswith("steps, all circuits finished, best lap 20.00 s")


def test_summary_of_a_world_counts_the_newest_checkpoint():
    class Leveled(GymnasiumWorld):
        def levels(self, use):
            return ("a", "b", "c") if use == "test" else ("",)

    turns = ((40_000, "a", 1.0), (40_000, "b", 2.0), (50_000, "c", 4.0))
    returns = [EpisodeRecord(step, Episode(9, value, True, level, "test"), True) for step, level, value in turns]
    told = summary(returns, Leveled(Config()))
    assert told.endswith("return 4.00 in the last evaluation (1 of 3 unseen levels driven)")


def test_summary_names_the_checkpoint_if_not_the_last():
    laps = [record("MarioCircuit.Act1", evaluated=True, at=step) for step in (12_000, 34_000)]
    assert summary(laps).endswith("1 of 1 circuits finished, best lap 20.00 s, evaluated at 34,000 steps")


@pytest.mark.parametrize("world", [KartWorld(Config()), GymnasiumWorld(Config())], ids=["kart", "gymnasium"])
def test_collapse_is_of_reward_where_steady_else_of_returns(world):
    console = Console(file=io.StringIO(), width=200)
    display = Display(console, "run", world)
    for second in range(200):
        learned = 30 < second < 150
        counters = Counters(100 * second, seconds=float(second))
        reward = 0.04 * learned if world.steady_reward else 0.04 * (not learned)
        display.add_update(counters, 100, reward, {})
        for _ in range(5):
            value = 20.0 * learned if not world.steady_reward else 20.0
            episode = Episode(9, value, True, details=Race(0.0, ()))
            display.add(EpisodeRecord(100 * second, episode, False, float(second)))
    said = console.file.getvalue()
    assert said.startswith(f"Collapse: the mean training {'reward' if world.steady_reward else 'return'} fell")
    assert said.count("Collapse") == 1
