"""`kartrl.train`: runs, callbacks and functions of a user's own program."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from commands import HELPERS, assert_clear, run_example

import kartrl
from kartrl.envs.episode import Episode
from kartrl.errors import UserError
from kartrl.run.callbacks import Callbacks


def make_nothing() -> None:
    """No environment."""


def script(name: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HELPERS / name)]
    return subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=250, check=False)


def test_callbacks_hear_of_each_update_and_end_runs(tmp_path: Path) -> None:
    done = script("callbacks_script.py", tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["updates"] == [*range(1, told["run"] + 1)]
    assert told["ended"].startswith("run.agent_steps = 2,000")
    assert told["kept"], "threads and the handler of Ctrl-C"
    assert told["raised"]
    assert all(heard == made > 1 for heard, made in told["others"]), told["others"]
    assert told["interrupted"] == [], "no process is left"
    assert told["continued"]
    assert told["resumed"] == ["the callback on_episode", True], "in another thread"


@pytest.mark.parametrize("answer", [None, True, 0, np.True_, False, np.False_])
def test_a_callback_that_answers_false_ends_a_run(answer: object) -> None:
    callbacks = Callbacks(on_episode=lambda _: answer)
    callbacks.episode(Episode(1, 1.0, True))
    assert bool(callbacks.ended_by) == (answer is False or answer is np.False_)


def test_examples_train_and_bring_an_environment(tmp_path: Path) -> None:
    trained = run_example("train.py", cwd=tmp_path)
    assert "the callback on_episode" in trained or "run.agent_steps" in trained
    assert run_example("own_environment.py", cwd=tmp_path).startswith("lengths [")


def test_a_script_without_main_guard_is_refused_in_one_line(tmp_path: Path) -> None:
    done = script("unguarded.py", tmp_path)
    assert done.returncode == 1
    assert 'if __name__ == "__main__"' in done.stderr.splitlines()[-1]
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (lambda: gymnasium.make("CartPole-v1"), "at the top level of a file"),
        (gymnasium.Wrapper.step, "at the top level of a file"),
        (functools.partial(make_nothing), "at the top level of a file"),
        ("commands:shell", "doesn't exist"),  # that module only imports it
        (make_nothing, "None"),
        ("nowhere:make", "No module named 'nowhere'"),
    ],
)
def test_an_env_that_processes_cannot_make_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: object, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARTRL_IMPORT", "")
    with pytest.raises(UserError) as refused:
        kartrl.train(kartrl.read_config(overrides={"environment.id": env}), progress=False)
    assert_clear(refused.value)
    assert words in str(refused.value)
    assert not (tmp_path / "logs").exists()
