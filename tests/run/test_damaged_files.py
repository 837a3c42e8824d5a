"""Damaged files of a run, of which others are good."""

import os
import shutil
from pathlib import Path

import pytest
from policies import CARTPOLE, make_checkpoint, save_policy

from kartrl.cli import main
from kartrl.config import dump, read
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.metrics import episodes_csv
from kartrl.run import folders as runs
from kartrl.run.folders import config_of, find_checkpoint, load_newest
from kartrl.run.run_folder import RunFolder


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "cut": cut,
    "cut by a byte": lambda path: os.truncate(path, path.stat().st_size - 1),
    "flipped": flip,
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "text": lambda path: path.write_text("not a checkpoint"),
    "appended": lambda path: path.write_bytes(path.read_bytes() + b"more"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with two checkpoints and a best one, and the current folder."""
    monkeypatch.chdir(tmp_path)
    made = Path("logs/run")
    for steps in (1000, 2000):
        save_policy(made, CARTPOLE, steps)
    checkpoint.save(made / "best.pt", checkpoint.load(made / "checkpoints" / "0000001000.pt")._replace(score=1.0))
    (made / "config.cfg").write_text(dump(read(overrides=[*CARTPOLE])))
    return made


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_newest_checkpoint_stands_in_for_a_damaged_best(folder: Path, damage, capsys) -> None:
    damage(folder / "best.pt")
    newest = folder / "checkpoints" / "0000002000.pt"
    assert find_checkpoint("run") == find_checkpoint("logs/run") == newest
    first, _ = capsys.readouterr().err.splitlines()
    assert first.startswith("kartrl: warning: logs/run/best.pt: refused: ")
    assert first.endswith(f"; using {newest}")
    damage(newest)
    assert find_checkpoint("run").name == "0000001000.pt"
    damage(folder / "checkpoints" / "0000001000.pt")
    with pytest.raises(UserError, match=r"best\.pt: refused: "):
        find_checkpoint("run")


@pytest.mark.parametrize(
    "command",
    [
        "evaluate -p run --episodes 1",
        "evaluate --episodes 1",
        "record -p run -o film.mp4",
        "watch run -o film.mp4 --seconds 1",
        "export run -o small.pt --episodes 0",
    ],
)
def test_commands_use_the_undamaged_parts_of_a_run(folder: Path, command: str, capsys) -> None:
    cut(folder / "best.pt")
    assert main(command.split()) == 0
    assert len(capsys.readouterr().err.splitlines()) == ("run" in command), "one line, where the user has named the run"


def test_resume_uses_the_best_if_it_is_the_newest_undamaged(folder: Path, capsys) -> None:
    whole, checkpoints = Path("whole"), folder / "checkpoints"
    shutil.copytree(folder, whole)
    for name in ("0000001000.pt", "0000002000.pt"):
        cut(checkpoints / name)
    assert load_newest(folder).counters.agent_steps == 1000
    assert "resuming from logs/run/best.pt" in capsys.readouterr().err
    assert {path.name for path in checkpoints.iterdir()} == {"0000001000.damaged", "0000002000.damaged"}
    shutil.rmtree(checkpoints)
    assert load_newest(folder).counters.agent_steps == 1000, "with no other checkpoint, too"
    assert runs.find(Path("logs"), "run") == runs.find(Path("logs"), "") == folder
    shutil.copy(whole / "checkpoints" / "0000002000.pt", whole / "best.pt")
    cut(whole / "checkpoints" / "0000002000.pt")
    assert load_newest(whole).counters.agent_steps == 2000
    cut(whole / "best.pt")
    assert load_newest(whole).counters.agent_steps == 1000


CONFIGS = {
    "empty": b"",
    "zeros": bytes(3000),
    "text": b"what is this?",
    "not text": bytes(range(256)),
    "an unknown key": b"[run]\nsede = 1\n",
    "cut": dump(read(overrides=[*CARTPOLE])).encode()[:4000],
    "cut in the last section": dump(read(overrides=[*CARTPOLE])).encode()[:-40],
    "missing": None,
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=CONFIGS)
def test_a_damaged_configuration_is_written_anew_by_a_resume(folder: Path, content: bytes | None) -> None:
    file, stored = folder / "config.cfg", make_checkpoint(5, *CARTPOLE)
    file.unlink() if content is None else file.write_bytes(content)
    assert config_of(folder).environment.id == "CartPole-v1", "until then the checkpoint's is read"
    held = RunFolder(folder)
    assert held.mend(stored.config, {})
    assert read([file]) == stored.config
    assert (folder / "config.damaged").exists() == (content is not None)
    assert not held.mend(read(), {})
    held.release()
    assert read([file]) == stored.config, "a whole file stays as it is"


def test_runs_with_damaged_files_are_compared(folder: Path, capsys) -> None:
    (folder / "config.cfg").write_bytes(b"")
    cut(folder / "checkpoints" / "0000002000.pt")
    row = episodes_csv.EpisodeRow(1.0, 10, "0", "", 5.0, 10, 0)
    lines = [",".join(map(str, values)) for values in (row._fields, row)]
    (folder / "episodes.csv").write_text("\n".join(lines) + "\n")
    assert main(["compare", "run", "--by", "environment.id"]) == 0
    assert "| CartPole-v1 |" in capsys.readouterr().out
