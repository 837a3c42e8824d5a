"""`kartrl tune` as a user runs it."""

import json
import subprocess
from pathlib import Path

import optuna
import pytest
from commands import assert_clear, run, start, wait_for
from documented_fields import check_fields, documented
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from PIL import Image

from kartrl.cli import main
from kartrl.config import read
from kartrl.errors import UserError

TINY = ("-c", "cartpole", "--steps", "400", "--set", "evaluation.minutes=0", "--set", "system.agents=1")
GRID = ("--grid", "model.hidden_size=8,16", "optimizer.centered=false,true")


def load(folder: Path) -> optuna.Study:
    """The study, as optuna-dashboard opens it."""
    storage = JournalStorage(JournalFileBackend(str(folder / "study.journal")))
    return optuna.load_study(study_name=folder.name, storage=storage)


@pytest.mark.timeout(300)
def test_killed_tune_is_continued_by_two_processes(tmp_path):
    folder = tmp_path / "logs" / "tune-CartPole-v1"
    arguments = "tune", *TINY, "--set", "model.hidden_size=8", "--confirm", "0", *GRID
    with (tmp_path / "output").open("w") as output:
        killed = start(*arguments, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT)

    def has_begun() -> bool:
        if not (folder / "study.journal").exists() or not list(folder.glob("trial*.log")):
            return False
        return any(trial.state == TrialState.RUNNING for trial in load(folder).trials)

    wait_for(has_begun, 60, "a trial")
    killed.kill()
    killed.wait(60)
    with (tmp_path / "other").open("w") as output:
        helper = start(*arguments, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT)
    try:
        done = run(*arguments, "--json", cwd=tmp_path, timeout=200)
        assert done.returncode == 0, done.stderr
        assert helper.wait(100) == 0
    finally:
        helper.kill()
        helper.wait(60)

    trials = load(folder).trials
    assert [tuple(trial.params.values()) for trial in trials] == [
        ("8", "false"),
        ("8", "true"),
        ("16", "false"),
        ("16", "true"),
    ]
    states = [trial.state for trial in trials]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.FAIL], done.stderr
    assert "centered is a variant of rmsprop" in trials[1].user_attrs["reason"], "a refused trial ends alone"
    best = max((trials[0], trials[2]), key=lambda trial: trial.value)
    results = json.loads(done.stdout)
    assert results == json.loads((folder / "tuning.json").read_text())
    check_fields(results, documented("tune"))
    assert (results["best"], len(results["trials"])) == (best.number, 4)
    assert results["trials"][0]["defaults"]
    config = read([folder / "best.cfg"])
    assert config.model.hidden_size == int(best.params["model.hidden_size"])
    assert (config.run.agent_steps, config.run.name) == (400, "auto")
    for name in ("history", "importance", "slices"):
        with Image.open(folder / f"{name}.png") as picture:
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 50, name
    assert f"| {best.number} " in (folder / "tuning.md").read_text()
    assert "failed: refused: " in (folder / "tuning.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--search", "model.hiden_size=8..16"], "nearest valid one is 'hidden_size'"),
        (["--search", "model.hidden_size=8..16", "--reach", "nan"], "must be a finite number"),
        (["--search", "model.hidden_size=8..16", "--parallel", "1025"], "cores; each training needs one"),
        (["--search", "model.hidden_size=8..16", "--env", "Nothing-v0"], "doesn't exist"),
        (["--search", "model.hidden_size=8..16", "--seed", "4294967291"], "leaves too few seeds"),
        (["--search", "model.hidden_size=8..16", "--storage", "foo://x"], "cannot use this storage"),
        (["--grid", "model.hidden_size=8..16"], "needs a list of values"),
        ([], "one of the arguments --search --grid is required"),
    ],
)
def test_bad_input_is_one_line_and_begins_no_study(tmp_path, arguments, said):
    done = run("tune", *TINY, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr
    assert_clear(UserError(done.stderr.strip()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "metric", "changes"),
    [
        ("environment.kwargs.sutton_barto_reward=true,false", "episodic_return", True),
        ("environment.kwargs.sutton_barto_reward=true,false", "episodic_length", False),
        ("model.hidden_size=8,16", "episodic_return", False),
    ],
)
def test_keys_that_change_what_a_return_counts_are_named(capsys, key, metric, changes):
    assert main(["tune", *TINY, "--grid", key, "--metric", metric, "--parallel", "1025"]) == 2
    name = key.partition("=")[0]
    assert (f"{name} may change what {metric} counts" in " ".join(capsys.readouterr().out.split())) == changes
