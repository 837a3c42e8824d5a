"""Environments that change the working directory, to which a user's paths are relative."""

import os
from pathlib import Path

import pytest
from commands import QUICK, run

from kartrl.config import read
from kartrl.envs.worlds import load_world
from kartrl.envs.wrappers.own_folder import OwnFolder
from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv

SHORT = ["--set", "run.agent_steps=1500", "--set", "run.name=run", "--set", "evaluation.video_seconds=0"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARTRL_IMPORT", "wandering")


@pytest.mark.timeout(300)
def test_no_path_of_a_command_follows_its_environment(tmp_path: Path) -> None:
    trained = run("train", *QUICK, *SHORT, "--env", "wandering:Wandering-v0", cwd=tmp_path)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    folder = tmp_path / "logs" / "run"
    assert checkpoint.load(folder / "best.pt").score is not None, "it was evaluated"
    assert scalars_csv.values(folder, "evaluation/train_return")
    assert {"scalars.csv", "config.cfg", "evaluation"} <= {path.name for path in folder.iterdir()}
    for command, made in (
        (["record", "-p", "run", "-o", "a.mp4"], "a.mp4"),
        (["watch", "run", "-o", "b.mp4", "--seconds", "1"], "b.mp4"),
        (["export", "run", "-o", "c.pt", "--episodes", "1"], "c.md"),
        (["evaluate", "-p", "c.pt", "--episodes", "2"], "c.pt"),
    ):
        done = run(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / made).exists(), command
    assert {path.name for path in tmp_path.iterdir()} == {"data", "logs", "a.mp4", "b.mp4", "c.pt", "c.md"}


def test_environments_made_together_begin_in_the_same_folder(tmp_path: Path) -> None:
    world = load_world(read(overrides=["environment.id=wandering:Entering-v0"]))
    envs = world.training_envs(3)
    assert Path.cwd() == tmp_path / "data", "where the environments are, as if there were one"
    for env in envs:
        env.reset(seed=1)
        env.close()


def test_env_with_its_own_folder_leaves_that_of_others(tmp_path: Path) -> None:
    made = [OwnFolder(load_world(read(overrides=["environment.id=wandering:Entering-v0"])).open_env) for _ in range(2)]
    wanderer = OwnFolder(load_world(read(overrides=["environment.id=wandering:Wandering-v0"])).open_env)
    for env in (*made, wanderer, *made):
        env.reset(seed=1)
        env.step(0)
        assert Path.cwd() == tmp_path
    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(AssertionError):
        made[0].reset()
    assert Path.cwd() == tmp_path
    for env in (*made, wanderer):
        env.close()
    assert Path.cwd() == tmp_path


def test_folders_named_by_variables_are_relative_to_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kartrl.cli import main

    for name in ("KARTRL_CACHE", "KARTRL_DATA", "TMPDIR"):
        monkeypatch.setenv(name, "data")
    assert main(["config"]) == 0
    assert {os.environ[name] for name in ("KARTRL_CACHE", "KARTRL_DATA", "TMPDIR")} == {str(tmp_path / "data")}
