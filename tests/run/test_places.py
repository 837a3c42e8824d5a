"""Where runs are, and which of them are the user's own."""

import shlex
import shutil
from pathlib import Path

import pytest
from commands import ROOT, assert_clear
from finished_runs import write_run
from needs import needs_kart
from policies import CARTPOLE, KART, save_policy

from kartrl.cli import main
from kartrl.config import dump
from kartrl.errors import UserError
from kartrl.launch import known, named
from kartrl.learning import checkpoint
from kartrl.run.folders import find, find_checkpoint, find_newest, find_run

STATE = ROOT / "kartrl" / "kart" / "games" / "KartRL-Snes" / "MarioCircuit.Act2.state"
LONG = "a" * 300  # `Path.is_file` raises an exception for this, as for what lies in a closed folder
OWN = [*KART, "kart.no_progress_limit=0.2", "levels.*=none"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KARTRL_LOGS", raising=False)
    return tmp_path


def add_run(folder: Path, *overrides: str) -> Path:
    """A run that has a checkpoint, which is returned."""
    path = save_policy(folder, overrides)
    (folder / "config.cfg").write_text(dump(checkpoint.load(path).config), encoding="utf-8")
    return path


def test_runs_are_found_where_the_variable_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = add_run(here / "elsewhere" / "pole", *CARTPOLE)
    with pytest.raises(UserError, match=r"KARTRL_LOGS=FOLDER"):
        find_run("pole")
    assert main(["evaluate", "-p", "pole", "--episodes", "1"]) == 2
    monkeypatch.setenv("KARTRL_LOGS", "elsewhere")
    assert find_run("pole") == Path("elsewhere/pole")
    assert find_checkpoint("pole") == find_newest(lambda _: True) == path.relative_to(here)
    assert named(Path("elsewhere/pole")) == "pole"
    for command in (["evaluate", "--episodes", "1"], ["record", "-p", "pole"]):
        assert main(command) == 0
    write_run(here / "elsewhere" / "other")
    assert main(["compare", "other"]) == 0
    assert main(["export", "pole", "-o", "pole.pt", "--episodes", "0"]) == 0


def test_runs_of_experiments_are_found_by_name(here: Path) -> None:
    path = add_run(here / "logs" / "study" / "a__1", *CARTPOLE)
    assert find_run("a__1") == find_run("study/a__1") == find(Path("logs"), "a__1") == Path("logs/study/a__1")
    assert find_checkpoint("a__1") == find_newest(lambda _: True) == path.relative_to(here)
    add_run(here / "logs" / "again" / "a__1", *CARTPOLE)
    with pytest.raises(UserError, match=r"name one as logs/again/a__1 or logs/study/a__1") as refused:
        find_run("a__1")
    assert_clear(refused.value)
    with pytest.raises(UserError, match=r"did you mean the run a__1\?"):
        find_checkpoint("b__1")


def test_printed_names_are_read_as_runs(here: Path) -> None:
    (here / "there").touch()
    for name in ("-p", "there", "a b;c", "plain"):
        write_run(here / "logs" / name)
        (printed,) = shlex.split(named(Path("logs") / name))
        assert find_run(printed) == Path("logs") / name
        assert not printed.startswith("-")


def test_printed_commands_name_runs_elsewhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known(Path("logs/run")) == known(here / "logs" / "study" / "run") == ""
    assert known(here / "my runs" / "run") == f"KARTRL_LOGS='{here}/my runs' "
    monkeypatch.setenv("KARTRL_LOGS", str(here / "my runs"))
    assert known(here / "my runs" / "run") == ""


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", LONG],
        ["train", "--resume", LONG],
        ["train", "--init", LONG],
        ["train", "--env", f"retro/./{LONG}"],
        ["compare", LONG],
        ["report", LONG],
        ["clean", LONG],
        ["export", LONG, "-o", "a.pt"],
        ["import-rom", LONG],
        ["circuit", "check", LONG],
        ["record", "-l", f"{LONG}.state"],
    ],
    ids=lambda command: " ".join(command[:2]).replace(LONG, ""),
)
@pytest.mark.usefixtures("here")
def test_names_that_are_too_long_are_one_line(capfd: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main(command) == 2
    said = capfd.readouterr().err
    assert said.startswith("kartrl: ")
    assert said.count("\n") == 1
    assert LONG in said


@needs_kart
def test_circuits_of_own_runs_are_driven(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(STATE, here / "mine.state")
    path = add_run(here / "logs" / "run", *OWN, "levels.mine.state=train")
    assert main(["evaluate", "-p", "run", "--episodes", "1"]) == 0
    assert "mine " in capsys.readouterr().out
    assert main(["record", "-p", "run"]) == 0
    assert main(["watch", "run", "-o", "film.mp4", "--seconds", "1"]) == 0
    assert main(["export", "run", "-o", "small.pt", "--episodes", "1"]) == 0
    assert "| mine | train |" in (here / "small.md").read_text()
    assert str(here).encode() not in (here / "small.pt").read_bytes()
    capsys.readouterr()
    for stranger in (here / "small.pt", shutil.copy(path, here / "lone.pt"), shutil.copy(path, path.parent.parent)):
        status = main(["evaluate", "-p", str(stranger), "--episodes", "1"])
        assert status == 2, "it names no circuit but paths, or none at all"
        assert capsys.readouterr().err.count("\n") == 1
    (here / "mine.state").unlink()
    assert main(["evaluate", "-p", "run", "--episodes", "1"]) == 2
    assert "not found in this folder (mine.state)" in capsys.readouterr().err


@needs_kart
def test_missing_circuits_of_own_runs_are_left_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(here / "logs" / "run", *OWN, "levels.MarioCircuit.Act1=train", "levels.gone/=none")
    config = here / "logs" / "run" / "config.cfg"
    path = next((here / "logs" / "run" / "checkpoints").iterdir())
    stored = checkpoint.load(path)
    levels = type(stored.config.levels)(uses={**stored.config.levels.uses, "gone/*.toml": "test"})
    checkpoint.save(path, stored._replace(config=stored.config.model_copy(update={"levels": levels})))
    assert config.is_file()
    assert main(["evaluate", "-p", "run", "--episodes", "1"]) == 0
    assert "not found in this folder (gone/*.toml); name them with -l" in capsys.readouterr().out
