"""Saving survives kills at every stage, a full disk, and non-finite weights."""

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from commands import EVALUATE_OFF, HELPERS, PACED, QUICK, REPORT_OFTEN, Training, environment, run, wait_for
from policies import make_checkpoint

from kartrl.config import dump, read
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import NotFinite
from kartrl.metrics.scalars_csv import values
from kartrl.run import folders as runs
from kartrl.run.resuming import resumed_config
from kartrl.run.run_folder import RunFolder, is_training

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals and resource limits")


def test_kill_at_any_stage_of_a_save_leaves_a_valid_checkpoint(tmp_path):
    killing = subprocess.run(
        [sys.executable, HELPERS / "killing.py", tmp_path],
        env=environment(),
        text=True,
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert killing.returncode == 0, killing.stderr
    told = json.loads(killing.stdout)
    assert {"open", "write", "fsync", "close", "unlink"} <= set(told["killed_at"])
    assert {"replace", "rename"} & set(told["killed_at"])
    assert told["litter"] > 5, "many were killed while they wrote"
    assert min(told["newest"].values()) > 5, "some were killed before the rename, some after"


def assert_old_one_is_kept(path: Path) -> None:
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert checkpoint.load(path).counters.agent_steps == 1


def test_full_disk_keeps_the_previous_checkpoint(small_disk):
    path = small_disk / "checkpoints" / "1.pt"
    checkpoint.save(path, make_checkpoint(agent_steps=1))
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 8192))
    with pytest.raises(OSError, match="No space left") as error:
        checkpoint.save(path, make_checkpoint(agent_steps=2))
    assert error.value.errno == errno.ENOSPC
    assert_old_one_is_kept(path)


def test_file_size_limit_keeps_the_previous_checkpoint(tmp_path):
    path = tmp_path / "checkpoints" / "1.pt"
    checkpoint.save(path, make_checkpoint(agent_steps=1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoint.save(path, make_checkpoint(agent_steps=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_old_one_is_kept(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_weights_are_not_saved(tmp_path, value):
    path = tmp_path / "checkpoints" / "1.pt"
    checkpoint.save(path, make_checkpoint(agent_steps=1))
    lost = make_checkpoint(agent_steps=2)
    lost.network["policy.bias"][1] = value
    with pytest.raises(NotFinite):
        checkpoint.save(path, lost)
    assert_old_one_is_kept(path)


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="needs prlimit")
def test_training_continues_when_saving_fails(tmp_path):
    options = [*QUICK, *PACED, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.checkpoint_minutes=0.01"]
    folder, lines = tmp_path / "logs" / "run", []

    def listen(training):
        for line in training.process.stdout:
            lines.append(line)

    with Training(tmp_path, *options, "--set", "run.agent_steps=1000000000") as training:
        listener = threading.Thread(target=listen, args=(training,))
        listener.start()
        wait_for(lambda: checkpoint.newest(folder), 60, "a checkpoint")
        server = psutil.Process(training.process.pid)
        limits = server.rlimit(psutil.RLIMIT_FSIZE)
        server.rlimit(psutil.RLIMIT_FSIZE, (1000, limits[1]))
        wait_for(lambda: sum("failed to save" in line for line in lines) >= 2, 60, "two saves to fail")
        kept = checkpoint.newest(folder)
        assert kept is not None
        checkpoint.load(kept)
        server.rlimit(psutil.RLIMIT_FSIZE, limits)
        wait_for(lambda: checkpoint.newest(folder) > kept, 60, "a save to succeed again")
        training.process.send_signal(signal.SIGTERM)
        assert training.process.wait(60) == 128 + signal.SIGTERM
        listener.join(60)
    assert any("File too large); training continues" in line for line in lines)
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="needs prlimit")
@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_failed_last_save_ends_with_status_1_and_its_cause(tmp_path, monkeypatch, number):
    gate, folder = tmp_path / "gate", tmp_path / "logs" / "run"
    monkeypatch.setenv("KARTRL_TEST_GATE", str(gate))
    limit = "3000" if number is None else "1000000000"
    options = [*QUICK, *EVALUATE_OFF, "--set", "run.name=run", "--set", f"run.agent_steps={limit}"]
    with Training(tmp_path, *options, "--set", "environment.id=pacing:Gated-v0", faults=REPORT_OFTEN) as training:
        training.role("agent-0")  # from when the slab, which is a file, is there, it is as on a full disk
        psutil.Process(training.process.pid).rlimit(psutil.RLIMIT_FSIZE, (1000, 1000))
        gate.touch()
        if number is not None:
            wait_for(lambda: sum(values(folder, "speed/updates")[-1:]) > 0, 60, "updates")
        status, output = training.end(number, timeout=100)
    assert status == 1, output
    assert "progress since the last checkpoint could not be saved: File too large" in output
    assert "nothing was learned" not in output
    assert "Saved." not in output
    assert "--resume" not in output, "from what?"
    assert checkpoint.newest(folder) is None


def test_diverging_run_rolls_back_once_and_ends_with_its_cause(tmp_path):
    # paced, so that there is a checkpoint before it is over
    options = [*QUICK, *PACED, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.checkpoint_minutes=0.005"]
    diverging = ["--set", "optimizer.learning_rate=1e30"]
    result = run("train", *options, *diverging, cwd=tmp_path, faults="report=1000")  # it is printed without a report
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(r"Diverged: the loss or gradient of 10 updates in a row was not finite, again", result.stdout)
    assert result.stdout.count("rolling back weights and optimizer") == 1
    saved = checkpoint.newest_first(tmp_path / "logs" / "run")
    assert len(saved) <= read().run.keep_checkpoints
    assert ("resume it from its last checkpoint" in result.stdout) == bool(saved), "none, if nothing was learned before"
    for file in saved:
        assert all(tensor.isfinite().all() for tensor in checkpoint.load(file).network.values())


def damage_first_half(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage", [damage_first_half, flip_a_bit, lambda path: path.write_bytes(b"")], ids=["cut", "flipped", "empty"]
)
def test_damaged_newest_checkpoint_is_skipped_and_renamed(tmp_path, capsys, damage):
    paths = [tmp_path / "checkpoints" / f"{number:010d}.pt" for number in (1, 2, 3)]
    for number, path in enumerate(paths, 1):
        checkpoint.save(path, make_checkpoint(agent_steps=number))
    damage(paths[2])
    assert runs.load_newest(tmp_path).counters.agent_steps == 2
    assert f"{paths[2]}: refused" in capsys.readouterr().err
    # otherwise it would remain the newest one, and be kept first
    assert [file.name for file in checkpoint.newest_first(tmp_path)] == [paths[1].name, paths[0].name]
    assert paths[2].with_suffix(".damaged").exists()
    assert runs.load_newest(tmp_path).counters.agent_steps == 2
    assert capsys.readouterr().err == ""


def test_resume_with_only_damaged_checkpoints_changes_nothing(tmp_path):
    folder = tmp_path / "logs" / "run" / "checkpoints"
    for number in (1, 2):
        checkpoint.save(folder / f"{number:010d}.pt", make_checkpoint(agent_steps=number))
        damage_first_half(folder / f"{number:010d}.pt")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run("train", "--resume", "run", cwd=tmp_path)
    assert result.returncode == 2, result.stdout
    assert "none of its checkpoints can be read" in result.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    with pytest.raises(UserError, match="none of its checkpoints"):
        runs.load_newest(folder.parent)


def test_resumed_run_keeps_the_whole_file_it_began_with(tmp_path):
    """Its checkpoints hold what `auto` and --init have become."""
    file = tmp_path / "mine.cfg"
    file.write_text(dump(read(overrides=["model.hidden_size=16"])))
    begun = read([str(file)], ["model.precision=fp32", "run.init=logs/other/best.pt", "kart.game=bundled"])
    stored = make_checkpoint(agent_steps=1)._replace(config=begun)
    config = resumed_config(stored, [str(file)], [])
    assert (config.model.precision, config.run.init) == ("auto", "logs/other/best.pt")
    assert config.world.kart.game == "bundled", "whatever auto would be now"
    assert resumed_config(stored, [], ["model.precision=bf16"]).model.precision == "bf16"
    with pytest.raises(UserError, match=r"section \[model\] must stay as it was"):
        resumed_config(stored, [str(file)], ["model.hidden_size=17"])
    with pytest.raises(UserError, match="--init: starts a new run"):
        resumed_config(stored, [], ["run.init=logs/third/best.pt"])


def test_run_is_training_only_while_its_folder_is_held(tmp_path):
    """Not if another process has the id of one that was killed, as in the next container."""
    assert not is_training(tmp_path)
    folder = RunFolder(tmp_path)
    assert is_training(tmp_path)
    folder.release()
    (tmp_path / "run.pid").write_text(f"{os.getpid()}\n")
    assert not is_training(tmp_path)


def test_resume_with_another_optimizer_is_rejected():
    stored = make_checkpoint(agent_steps=1)
    assert resumed_config(stored, [], ["optimizer.decay=0.9"]).optimizer.decay == 0.9
    for override in ("optimizer.name=rmsprop", "optimizer.name=sgd"):
        with pytest.raises(UserError, match="start a new run"):
            resumed_config(stored, [], [override])
