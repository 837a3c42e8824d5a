"""Trackers beside TensorBoard: the real ones where they are installed, and one that fails."""

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from kartrl.config import read
from kartrl.metrics import scalars_csv
from kartrl.metrics.sinks import Sinks
from kartrl.metrics.trackers import WAITING, _own_id


def log(folder, tracker, *overrides):
    """Two sets of scalars, the second of an earlier step, as an evaluation's are."""
    sinks = Sinks(folder, 0, read(overrides=[f"run.tracker={tracker}", *overrides]))
    sinks.scalars(200, {"losses/total": 1.0}, 2.0)
    sinks.scalars(100, {"evaluation/train_return": 2.0}, 1.0)
    sinks.close()
    assert scalars_csv.values(folder, "evaluation/train_return") == [2.0]


def test_a_tracker_that_fails_is_reported_once_and_given_up(tmp_path, monkeypatch, capsys):
    broken = ModuleType("mlflow")  # a stranger's module without anything in it
    monkeypatch.setitem(sys.modules, "mlflow", broken)
    log(tmp_path, "mlflow")
    errors = capsys.readouterr().err
    assert errors.count("mlflow failed") == errors.count("\n") == 1


def test_unresponsive_tracker_delays_nothing(tmp_path, monkeypatch, capsys):
    silent, released = ModuleType("mlflow"), threading.Event()
    silent.environment_variables = SimpleNamespace(MLFLOW_EXPERIMENT_NAME=SimpleNamespace(get=released.wait))
    monkeypatch.setitem(sys.modules, "mlflow", silent)
    sinks = Sinks(tmp_path, 0, read(overrides=["run.tracker=mlflow"]))
    for step in range(2 * WAITING):
        sinks.scalars(step, {"losses/total": 1.0}, 1.0)
    sinks.flush()
    assert len(scalars_csv.values(tmp_path, "losses/total")) == 2 * WAITING
    released.set()
    sinks.close()
    assert capsys.readouterr().err.count("mlflow failed") == 1


def test_tracker_id_of_a_run_is_independent_of_its_name(tmp_path):
    folders = [tmp_path / name / "seed1" for name in ("one", "other")]
    for folder in folders:
        folder.mkdir(parents=True)
    first, second = (_own_id(folder / "wandb.id") for folder in folders)
    assert first != second
    assert _own_id(folders[0] / "wandb.id") == first, "a resumed run goes on"


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="wandb is not installed")
def test_weights_and_biases(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "project-of-the-user")
    log(tmp_path / "run", "wandb")
    assert "failed" not in capfd.readouterr().err
    (written,) = tmp_path.rglob("*.wandb")
    assert b"evaluation/train_return" in written.read_bytes()
    assert b"project-of-the-user" in written.read_bytes()


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    log(tmp_path / "run", "mlflow", "levels.*.Act1=train")
    (found,) = mlflow.MlflowClient().search_runs([mlflow.get_experiment_by_name("kartrl").experiment_id])
    assert found.data.metrics == {"losses/total": 1.0, "evaluation/train_return": 2.0}
    assert found.data.params["optimizer.name"] == read().optimizer.name
    assert found.data.params["levels.-.Act1"] == "train"


@pytest.mark.skipif(importlib.util.find_spec("trackio") is None, reason="trackio is not installed")
def test_trackio_keeps_runs_of_one_name_apart(tmp_path):
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_trackers import log
for place in ("one", "other", "one"):
    folder = Path({str(tmp_path)!r}) / place / "seed1"
    folder.mkdir(parents=True, exist_ok=True)
    log(folder, "trackio", "levels.*.Act1=train")
import trackio
runs = list(trackio.Api().runs("kartrl"))
print(len(runs), {{run.config["levels.*.Act1"] for run in runs}}, {{run.name for run in runs}})
"""
    variables = {**os.environ, "TRACKIO_DIR": str(tmp_path / "db")}  # read when it is imported
    ended = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.stdout == "2 {'train'} {'seed1'}\n", ended.stdout + ended.stderr
