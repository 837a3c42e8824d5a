"""Two runs never share a folder."""

import os
import signal
import subprocess
import sys

import pytest
from commands import ENDLESS, EVALUATE_OFF, QUICK, Training, environment, run, steps, wait_for
from policies import make_checkpoint

from kartrl.config import read
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.run import folders as runs
from kartrl.run.run_folder import RunFolder

TAKER = """
import os, pathlib, sys
from kartrl.run.run_folder import RunFolder
from kartrl.errors import UserError
folder = pathlib.Path(sys.argv[1])
for _ in range(40):
    try:
        held = RunFolder(folder)
    except UserError:
        continue
    os.close(os.open(folder / "mine", os.O_CREAT | os.O_EXCL))  # fails if another process holds the folder too
    os.unlink(folder / "mine")
    held.release()
"""


def test_second_run_in_a_folder_is_refused_with_holders_pid(tmp_path):
    with Training(tmp_path, *ENDLESS) as one, Training(tmp_path, *ENDLESS) as other:
        wait_for(lambda: (one.process.poll() is None) != (other.process.poll() is None), 60, "one of them to end")
        winner, loser = (one, other) if one.process.poll() is None else (other, one)
        status, output = loser.end()
        assert status == 2
        assert f"process {winner.process.pid}) is training in this folder" in output
        assert winner.end(signal.SIGTERM)[0] == 128 + signal.SIGTERM


@pytest.mark.timeout(240)
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_lock_of_a_killed_run_does_not_block_resuming(tmp_path):
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *ENDLESS) as first:
        wait_for(lambda: steps(folder) > 0, 60, "a checkpoint")
        first.process.kill()
        first.process.wait(60)
    assert (folder / "run.pid").read_text() == f"{first.process.pid}\n"
    begun = steps(folder)
    with Training(tmp_path, "--resume", "run") as second:
        wait_for(lambda: steps(folder) > begun, 60, "it to continue")
        third = run("train", "--resume", "run", cwd=tmp_path)
        assert third.returncode == 2
        assert f"process {second.process.pid})" in third.stderr
        again = run("train", *QUICK, "--set", "run.name=run", cwd=tmp_path)
        assert again.returncode == 2
        assert f"process {second.process.pid})" in again.stderr
        assert second.end(signal.SIGTERM)[0] == 128 + signal.SIGTERM


@pytest.mark.timeout(240)
def test_runs_started_in_the_same_second_have_separate_folders(tmp_path):
    several = ["-c", "a.cfg", "-c", "b.cfg", "--parallel", *QUICK, *EVALUATE_OFF, "--set", "run.agent_steps=1500"]
    for name in ("a", "b"):
        (tmp_path / f"{name}.cfg").write_text("[optimizer]\nname = sgd\n")
    ended = run("train", *several, cwd=tmp_path, timeout=200)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    trained = list((tmp_path / "logs").iterdir())
    assert len(trained) == 2
    for folder in trained:
        assert f"{folder.name} | finished after" in ended.stdout
    assert all(" | " in line for line in ended.stdout.splitlines()), "all lines say of which run they are"
    assert all(steps(folder) >= 1500 for folder in trained)
    config = read(overrides=[f"run.logs={tmp_path / 'quickly'}"])
    folders = [runs.create(config) for _ in range(5)]
    assert len({folder.path for folder in folders}) == 5
    for folder in folders:
        folder.release()


def test_run_killed_before_its_first_checkpoint_begins_anew(tmp_path):
    config, folder = read(overrides=[f"run.logs={tmp_path}", "run.name=run"]), tmp_path / "run"
    killed = runs.create(config)
    (folder / "scalars.csv").write_text("of the killed run")
    (folder / "notes.txt").write_text("the user's own")
    killed.is_new = False  # as if `release` were not called
    killed.release()
    again = runs.create(config)
    assert {path.name for path in folder.iterdir()} == {"run.lock", "run.pid", "config.cfg", "checkpoints", "notes.txt"}
    checkpoint.save(folder / "checkpoints" / "0000000007.pt", make_checkpoint(7))
    again.release()
    with pytest.raises(UserError, match="this run exists; resume it with --resume"):
        runs.create(config)


def test_folder_never_has_two_holders(tmp_path):
    takers = [subprocess.Popen([sys.executable, "-c", TAKER, str(tmp_path)], env=environment()) for _ in range(2)]
    assert [taker.wait(250) for taker in takers] == [0, 0]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_left_without_partially_written_files(tmp_path):
    folder = RunFolder(tmp_path)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    for name in ("0000000007.pt", ".0000000008.pt.1a2b3c4d.tmp"):
        (checkpoints / name).write_bytes(b"weights")
    folder.release()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["0000000007.pt"]


def test_files_of_the_users_in_a_run_folder_stay(tmp_path):
    (tmp_path / "notes" / "old.tmp").mkdir(parents=True)
    (tmp_path / ".old.tmp").mkdir()
    own = {tmp_path / "thesis.tmp", tmp_path / "notes" / "thesis.tmp", tmp_path / "notes" / ".a.1a2b3c4d.tmp"}
    for file in own:
        file.touch()
    RunFolder(tmp_path).release()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == own
