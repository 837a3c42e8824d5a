"""`kartrl clean`."""

from pathlib import Path

import pytest
from policies import CARTPOLE, save_policy

from kartrl.cli import main
from kartrl.config import dump, read
from kartrl.run.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A run with three checkpoints, a damaged one, its best, a copy of the user's and a replay."""
    monkeypatch.setenv("KARTRL_LOGS", str(tmp_path / "elsewhere"))
    run = tmp_path / "elsewhere" / "experiment" / "mine"
    (run / "replay").mkdir(parents=True)
    (run / "config.cfg").write_text(dump(read(overrides=CARTPOLE)))
    for steps in (300, 100, 200):
        last = save_policy(run, CARTPOLE, steps)
    (run / "best.pt").write_bytes(last.read_bytes())
    (run / "checkpoints" / "kept.pt").write_bytes(b"mine")
    (run / "checkpoints" / "0000000150.damaged").write_bytes(b"x")
    (run / "replay" / "0000000300.state").write_bytes(b"x")
    return run


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.rglob("*") if file.is_file()}


def test_old_checkpoints_are_removed_on_a_yes_only(folder, capsys):
    before = files(folder)
    assert main(["clean"]) == 0
    assert "--yes" in capsys.readouterr().out
    assert files(folder) == before
    assert main(["clean", "mine", "--yes"]) == 0
    removed = {"0000000100.pt", "0000000200.pt", "0000000150.damaged"}
    assert files(folder) == before - removed
    assert main(["clean", "--yes"]) == 0
    assert "Nothing to remove" in capsys.readouterr().out


def test_replay_of_an_ended_run_is_removed(folder):
    (folder / "ended").write_text("run.agent_steps = 300: 300 agent steps\n")
    assert main(["clean", str(folder), "--yes"]) == 0
    assert files(folder) == {"config.cfg", "ended", "best.pt", "kept.pt", "0000000300.pt"}


def test_training_or_unreadable_run_keeps_all_of_its_files(folder, capsys):
    held = RunFolder(folder)
    before = files(folder)
    assert main(["clean", "--yes"]) == 0
    assert files(folder) == before
    held.release()
    for file in (folder / "checkpoints").glob("0*.pt"):
        file.write_bytes(b"")
    assert main(["clean", "--yes"]) == 0
    assert {"0000000100.pt", "0000000200.pt", "0000000300.pt"} <= files(folder)
    assert main(["clean", "mien"]) == 2
    assert "did you mean the run mine?" in capsys.readouterr().err
