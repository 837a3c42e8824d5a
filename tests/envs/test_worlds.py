"""The interface of worlds: a small test world, trained, evaluated and filmed by the commands."""

import csv
import re
import signal
import subprocess
import sys

import pytest
from commands import HELPERS, environment, wait_for
from PIL import Image

from kartrl.cli import main
from kartrl.config import read
from kartrl.config.worlds import WORLDS
from kartrl.envs.worlds import GymnasiumWorld, load_world
from kartrl.kart.world import KartWorld

WALK = ("environment.id=Walk-v0", "model.hidden_size=16", "system.agents=2", "run.name=run")
OFTEN = ("run.agent_steps=1000000000", "run.checkpoint_minutes=0.02", "evaluation.minutes=0.02")
COMMAND = (sys.executable, str(HELPERS / "walking.py"))  # kartrl, where the small world is in the table


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which the small world was trained on until it had been evaluated, and what was printed."""
    folder = tmp_path_factory.mktemp("walk")
    settings = [part for setting in (*WALK, *OFTEN) for part in ("--set", setting)]
    scalars = folder / "logs" / "run" / "scalars.csv"
    with (folder / "output").open("w") as output:
        training = subprocess.Popen([*COMMAND, "train", *settings], cwd=folder, env=environment(), stdout=output)
        try:
            wait_for(lambda: scalars.exists() and "evaluation/test_place" in scalars.read_text(), 100, "an evaluation")
            paths = [f"train_paths/{path}/place" for path in ("flat.short", "flat.long")]
            wait_for(lambda: all(tag in scalars.read_text() for tag in paths), 60, "the agents' episodes on both paths")
        finally:
            training.terminate()
            assert training.wait(60) == 128 + signal.SIGTERM
    return folder, (folder / "output").read_text()


def test_a_worlds_levels_and_measures_are_logged(trained):
    with (trained[0] / "logs" / "run" / "scalars.csv").open() as file:
        tags = {row["tag"] for row in csv.DictReader(file)}
    assert {"charts/place", "train_paths/flat.short/place", "train_paths/flat.long/episodic_return"} <= tags
    assert {"evaluation_train/flat.long/place", "evaluation_test/steep/place", "evaluation/test_place"} <= tags
    assert not any("steep" in tag for tag in tags if tag.startswith("train"))
    assert not any("lap" in tag or "circuit" in tag for tag in tags)


def test_world_extends_terminal_lines_and_draws_its_levels(trained):
    folder, printed = trained
    assert re.search(r"lag \d+\.\d \| walked [123] paths \| ETA", printed)
    assert re.search(r"record -p run -l steep$", printed, re.M)
    with Image.open(folder / "logs" / "run" / "evaluation" / "latest.png") as sheet:
        assert sheet.height == 16, "three pictures in two rows"


def test_a_worlds_tables_and_pictures_are_those_of_the_commands(trained, monkeypatch, capsys):
    folder, _ = trained
    best = str(folder / "logs" / "run" / "best.pt")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(WORLDS, "Walk-v0", "walking")
    assert main(["evaluate", "-p", best, "--episodes", "2"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"path +┃ arrived ┃ furthest", table)
    assert re.search(r"steep \(unseen\) +│ +[012] of 2 │", table)
    assert main(["record", "-l", "steep", "-p", best]) == 0
    printed = capsys.readouterr().out
    assert "Profile: steep.png" in printed
    assert (folder / "steep.png").exists()
    assert (folder / "steep.mp4").exists()


def test_the_table_chooses_the_world():
    assert isinstance(load_world(read()), KartWorld)
    assert type(load_world(read(["cartpole"]))) is GymnasiumWorld


def test_an_environment_without_levels_needs_no_hook():
    world = GymnasiumWorld(read(["cartpole"]))
    assert (world.all_levels(), world.grouped, world.reset_options("x"), world.find_uses([])) == ((), False, {}, {})
    assert world.prepare() is world.config
    assert world.draw("", [], "") is None


@pytest.mark.parametrize(
    ("overrides", "mirrored"),
    [
        ([], (0, 2, 1, 4, 3, 6, 5, 8, 7)),
        (["kart.actions=left+B B right+B"], (2, 1, 0)),
        (["kart.actions=B left+B none b+RIGHT"], (0, 3, 2, 1)),
        (["kart.actions=B left+B right"], ()),
        (["kart.actions=B left+B B+left right+B"], ()),
        (["environment.wrapper=some:wrapper"], ()),
    ],
)
def test_the_kart_names_its_mirrored_actions(overrides: list[str], mirrored: tuple[int, ...]) -> None:
    assert KartWorld(read(overrides=overrides)).mirrored_actions() == mirrored
