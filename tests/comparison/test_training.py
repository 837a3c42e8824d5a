"""Training to completion in a process of its own."""

import io
import os

import psutil
import pytest
from policies import make_checkpoint
from rich.console import Console

from kartrl.comparison.experiment import make_progress
from kartrl.comparison.training import Training, train_to_end
from kartrl.config import dump, read
from kartrl.errors import RunFailed
from kartrl.learning import checkpoint


def test_resumed_run_out_of_minutes_is_complete(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs" / "run"
    # an update of 64,000 steps: some seconds, of which the run has a hundredth left
    batch = ["algorithm.unroll_length=1000", "system.training_batch_size=64"]
    overrides = ["system.agents=1", *batch, "evaluation.minutes=0", "run.minutes=1", "run.logs=logs", "run.name=run"]
    config = read(["cartpole"], ["model.hidden_size=16", *overrides])
    state = make_checkpoint(100, "model.hidden_size=16")
    almost = state._replace(config=config, counters=state.counters._replace(seconds=59.99))
    saved = folder / "checkpoints" / "0000000100.pt"
    checkpoint.save(saved, almost)
    (folder / "config.cfg").write_text(dump(config))
    assert train_to_end(folder, [], config.run, lambda: None) == saved


def test_a_killed_training_names_the_signal_and_has_its_cores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read(["cartpole"], ["run.logs=logs", "run.name=run", "run.agent_steps=1000000000"])
    options = ["-c", "cartpole", "--set", "run.logs=logs", "--name", "run", "--steps", "1e9"]
    own = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    before = psutil.Process().children()
    training = Training(tmp_path / "logs" / "run", options, config.run, cores=own[-1:])
    try:
        (process,) = [child for child in psutil.Process().children() if child not in before]
        assert not own or process.cpu_affinity() == own[-1:]
        process.kill()
        with pytest.raises(RunFailed, match="SIGKILL, as where memory runs out"):
            training.result()
    finally:
        training.request_end()
        training.wait()
    assert not own or sorted(os.sched_getaffinity(0)) == own


def test_time_left_is_known_of_trainings_that_report_rarely():
    now = 0.0
    progress = make_progress(Console(force_terminal=True, file=io.StringIO()))
    progress.get_time = lambda: now
    task = progress.add_task("", total=10)
    for completed in (1, 2, 3):
        now += 60.0
        progress.update(task, completed=completed)
    assert progress.tasks[0].time_remaining == 7 * 60
