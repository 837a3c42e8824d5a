"""Trackers beside TensorBoard: the real ones where they are installed, and one that fails."""

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from commands import wait_for

from kartrl.config import read
from kartrl.metrics import scalars_csv
from kartrl.metrics.records import Video
from kartrl.metrics.sinks import Sinks
from kartrl.metrics.trackers import WAITING, _own_id
from kartrl.metrics.video import gif

FILM = gif([np.full((8, 8, 3), grey, np.uint8) for grey in (0, 100, 200)], 5.0)
VIDEO = Video(100, "evaluation_video/train/CartPole-v1", FILM)


def log(folder, tracker, *overrides):
    """Two sets of scalars, the second of an earlier step, as an evaluation's are, and its film."""
    folder.mkdir(parents=True, exist_ok=True)
    sinks = Sinks(folder, 0, read(overrides=[f"run.tracker={tracker}", *overrides]))
    sinks.scalars(200, {"losses/total": 1.0}, 2.0)
    sinks.video(VIDEO)
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
        sinks.video(VIDEO)
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
    # its own process writes the file, perhaps after `finish` has returned
    wait_for(lambda: b"evaluation/train_return" in written.read_bytes(), 60, "W&B")
    assert b"project-of-the-user" in written.read_bytes()
    assert b"optimizer.learning_rate" in written.read_bytes(), "the configuration"
    (film,) = tmp_path.rglob("*.gif")
    assert film.read_bytes() == FILM
    assert b"evaluation_video/train/CartPole-v1" in written.read_bytes()


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
    (film,) = (tmp_path / "mlruns").rglob("*.gif")
    assert (film.parent.name, film.read_bytes()) == ("CartPole-v1", FILM)


@pytest.mark.skipif(importlib.util.find_spec("trackio") is None, reason="trackio is not installed")
def test_trackio_keeps_runs_of_one_name_apart(tmp_path):
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1] / "helpers")]!r}
from pathlib import Path
from test_trackers import log
for place in ("one", "other", "one"):
    folder = Path({str(tmp_path)!r}) / place / "seed1"
    folder.mkdir(parents=True, exist_ok=True)
    log(folder, "trackio", "levels.*.Act1=train")
import trackio
runs = list(trackio.Api().runs("kartrl"))
print(len(runs), {{run.config["levels.*.Act1"] for run in runs}}, {{run.name for run in runs}})
print({{"optimizer.learning_rate"}} <= runs[0].config.keys())
"""
    variables = {**os.environ, "TRACKIO_DIR": str(tmp_path / "db")}  # read when it is imported
    ended = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.stdout == "2 {'train'} {'seed1'}\nTrue\n", ended.stdout + ended.stderr
    films = list((tmp_path / "db").rglob("*.gif"))
    assert [film.read_bytes() for film in films] == [FILM] * 3
    (database,) = (tmp_path / "db").glob("*.db")
    assert VIDEO.tag.encode() in database.read_bytes()
