"""`kartrl compare`: tables and pictures of runs, and experiments that are trained first."""

import csv
import io
import json
from pathlib import Path

import pytest
from commands import assert_clear, run
from documented_fields import check_fields, documented
from finished_runs import write_run
from PIL import Image
from policies import make_checkpoint
from rich.console import Console

from kartrl.cli import main
from kartrl.commands.compare import Question, compare_experiment
from kartrl.comparison.experiment import read_experiment, record
from kartrl.comparison.runs import RETURN
from kartrl.config import dump, read
from kartrl.errors import UserError
from kartrl.learning import checkpoint

TINY = ("model.hidden_size=16", "system.agents=1", "evaluation.minutes=0", "run.agent_steps=300")
EXPERIMENT = f"""
seeds = [1]
common = ["cartpole", {", ".join(f'"{part}"' for part in TINY)}]

[algorithms]
appo = []
short = ["algorithm.unroll_length=8"]
vast = ["system.envs_per_agent=65536", "algorithm.unroll_length=10000"]
"""


def test_compare_writes_table_picture_and_json(tmp_path, monkeypatch, capsys):
    for seed in (1, 2, 3):
        for name, step in (("ppo", 2.0), ("a2c", 1.0)):
            returns = [seed + step * number for number in range(200)]
            tags = {"evaluation_train/a/finished": [0.0, float(name == "ppo")]}
            folder, levels = tmp_path / "logs" / f"{name}-{seed}", [("a", 0)] * 200
            write_run(folder, f"algorithm.name={name}", returns=returns, scalars=tags, levels=levels)
    names = [f"{name}-{seed}" for name in ("ppo", "a2c") for seed in (1, 2, 3)]
    done = run("compare", *names, "--reach", "250", "-o", "found/both.png", cwd=tmp_path)
    assert done.returncode == 2, "there is no folder found"
    assert_clear(UserError(done.stderr.strip()))
    done = run("compare", *names, "--reach", "250", "-o", "both.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # the mean of the last 20 of 200 episodes: 2 * 189.5 + seed; that of 100 episodes reaches 250 with the 175th
    assert "| ppo | 3 | 381 [380, 382] | 380 to 382 | 381 [380, 382] | 17.5 min, 18 k steps (3 of 3) |" in done.stdout
    assert "| 2.0 min, 2 k steps (3 of 3) |" in done.stdout
    assert "| a2c | 3 | 191.5 [190.5, 192.5] | 190.5 to 192.5 |" in done.stdout
    assert done.stdout.count("not reached (0 of 3)") == 2
    assert "| ppo |  | 100% [100%, 100%] |" in done.stdout
    table, picture_line = (tmp_path / "both.md").read_text().rstrip().rsplit("\n", 1)
    assert table.strip() in done.stdout
    assert picture_line == "![The same runs](both.png)"
    with Image.open(tmp_path / "both.png") as picture:
        colours = picture.convert("RGB").getcolors(1 << 20)
    assert len(colours) > 50

    monkeypatch.chdir(tmp_path)
    assert main(["compare", *names, "--reach", "250", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "| ppo | 3 | 381 [380, 382] |" in err
    results = json.loads(out)
    check_fields(results, documented("compare"))
    (task,) = results["tasks"]
    a2c, ppo = sorted(task["groups"], key=lambda group: group["group"])
    assert ppo["at_steps"] == {"iqm": 381, "low": 380, "high": 382}
    assert [(row["run"], row["seed"], row["at_steps"]) for row in a2c["runs"]] == [
        (f"a2c-{seed}", 1, 189.5 + seed) for seed in (1, 2, 3)
    ]
    assert {row["reached"]["steps"] for row in ppo["runs"]} == {17400, 17500}
    assert [row["reached"] for row in a2c["runs"]] == [None] * 3
    assert {"higher": "ppo", "lower": "a2c", "probability": 1.0} in results["improvements"]
    assert main(["compare", *names, "--reach", "250", "--csv"]) == 0
    rows = [*csv.DictReader(capsys.readouterr().out.splitlines())]
    assert [row["run"] for row in rows if row["group"] == "a2c"] == ["a2c-1", "a2c-2", "a2c-3"]
    assert {row["reached.steps"] for row in rows if row["group"] == "ppo"} == {"17400.0", "17500.0"}


def test_medians_of_steps_and_minutes_may_be_of_different_runs(tmp_path, capsys):
    """As where runs differ in speed. Of two runs it is between them, and one that never reaches it counts as later."""
    tag = "evaluation/train_return"
    for number, (steps, seconds) in enumerate([(30_000, 60), (10_000, 120), (20_000, 180)]):
        folder = write_run(tmp_path / f"{number}", scalars={tag: [0.0]})
        with (folder / "scalars.csv").open("a") as file:
            file.write(f"{seconds}.00,{steps},{tag},9\n")
    write_run(tmp_path / "3", scalars={tag: [0.0]})
    for names, told in (
        ("012", "2.0 min, 20 k steps (3 of 3)"),
        ("01", "1.5 min, 20 k steps (2 of 2)"),
        ("13", "not reached (1 of 2)"),
    ):
        assert main(["compare", *(str(tmp_path / name) for name in names), "--metric", tag, "--reach", "9"]) == 0
        assert f" {told} |" in capsys.readouterr().out


def test_short_runs_keep_two_digits_of_minutes_and_steps(tmp_path, capsys):
    folder = write_run(tmp_path / "run", scalars={"evaluation/train_return": [0.0]})
    with (folder / "scalars.csv").open("a") as file:
        file.write("2.40,310,evaluation/train_return,9\n")
    assert main(["compare", str(folder), "--metric", "evaluation/train_return", "--reach", "9"]) == 0
    assert " 0.04 min, 310 steps (1 of 1) |" in capsys.readouterr().out


def test_experiment_on_symmetry_names_files_with_equals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    (tmp_path / "a=b" / "model.core=lstm.cfg").write_text("[run]\nagent_steps = 500\n")
    file = tmp_path / "a=b" / "x=1.toml"
    file.write_text(
        'seeds = [1]\ncommon = ["a=b/model.core=lstm.cfg"]\n[algorithms]\n'
        'symmetric = []\nplain = ["environment.mirrored_actions=none"]\n'
    )
    folder, cells = read_experiment(file, "algorithm")
    assert folder == Path("logs/x=1")
    assert [cell.config.environment.mirrored_actions for cell in cells] == ["auto", "none"]
    assert {cell.config.run.agent_steps for cell in cells} == {500}


def test_later_parts_of_an_experiment_count(tmp_path):
    """Also where an earlier one says the same."""
    file = tmp_path / "pole.toml"
    file.write_text(
        'seeds = [1]\ncommon = ["cartpole", "appo.epochs=3"]\n[environments]\nx = ["appo.epochs=4"]\n'
        '[algorithms]\nshort = ["appo.epochs=3"]\n'
    )
    _, (cell,) = read_experiment(file, "algorithm")
    assert cell.config.appo.epochs == 3


def test_corrected_experiment_is_refused_only_for_begun_runs(tmp_path):
    file = tmp_path / "e.toml"
    text = f'seeds = [1, 2]\nfolder = "{tmp_path}/runs"\ncommon = ["cartpole"]\n[algorithms]\n'
    for epochs in (1, 2):
        file.write_text(f'{text}appo = ["appo.epochs={epochs}"]\n')
        written = [record(cell) for cell in read_experiment(file, "algorithm")[1]]
        assert [read([path]).appo.epochs for path in written] == [epochs] * 2
    (tmp_path / "runs" / "appo__2").mkdir()  # this one has begun
    file.write_text(f'{text}appo = ["appo.epochs=3"]\n')
    first, second = read_experiment(file, "algorithm")[1]
    record(first)
    with pytest.raises(UserError, match="appo__2: was started with another configuration"):
        record(second)


def test_an_episodes_metric_is_reached_by_a_mean_of_100(tmp_path):
    levels = [("", int(number >= 50)) for number in range(200)]
    for name in ("ppo", "a2c"):
        write_run(tmp_path / name, f"algorithm.name={name}", returns=[1.0] * 200, levels=levels)
    done = run("compare", "ppo", "./ppo", "a2c", "--metric", "finished", "--reach", "0.9", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # of 200 episodes the first 50 were not finished: 90 of the last 100 were after the 140th
    assert "| ppo | 1 | 1 | 1 to 1 | 1 | 14.0 min, 14 k steps (1 of 1) |" in done.stdout, "a run counts once"
    assert "| ppo |  | 50% |" in done.stdout, "one run has no interval"


def test_several_tasks_are_put_on_one_scale(tmp_path):
    for env, scale in (("CartPole-v1", 100.0), ("Acrobot-v1", 1.0)):
        for name, value in (("ppo", 4.0), ("a2c", 2.0)):
            write_run(tmp_path / f"{name}-{env}", f"algorithm.name={name}", env=env, returns=[scale * value])
    done = run("compare", *(path.name for path in sorted(tmp_path.iterdir())), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "All 2 tasks, scaled" in done.stdout
    assert "| ppo | 2 | 1 |" in done.stdout
    assert "| a2c | 2 | 0 |" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which runs?"),
        (["nobody"], "nobody: no such run"),
        (["one", "--by", "model.cor"], "model.core"),
        (["one", "--metric", "nothing"], "has no nothing yet"),
        (["one", "--metric", "level"], "has no level yet"),
        (["one", "--config", "e.toml"], "not both"),
        (["--config", "missing.toml"], "cannot read this experiment"),
        (["--config", "broken.toml"], "not valid TOML"),
        (["--config", "seedless.toml"], "seeds: is missing"),
        (["--config", "mistyped.toml"], "hidden_size"),
        (["--config", "unlike.toml"], "cannot compare: a__1 has environment.frame_skip = 5, b__1 has 4"),
        (["--config", "seeded.toml"], "sets run.seed itself"),
        (["--config", "outside.toml"], "cannot be part of a folder name"),
        (["--config", "twice.toml"], "seeds: 1 is there twice"),
        (["--config", "alike.toml"], "environments one and two are both CartPole-v1"),
        (["one", "-o", "."], "-o .: name a file"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_files(tmp_path, arguments, said):
    write_run(tmp_path / "one")
    for name, text in {
        "broken": "seeds = [",
        "seedless": "[algorithms]\na = []",
        "mistyped": 'seeds = [1]\n[algorithms]\na = ["model.hiden_size=4"]',
        "unlike": 'seeds = [1]\n[algorithms]\na = []\nb = ["environment.frame_skip=4"]',
        "seeded": 'seeds = [1]\ncommon = ["run.seed=2"]\n[algorithms]\na = []',
        "twice": "seeds = [1, 2, 1]\n[algorithms]\na = []",
        "alike": 'seeds = [1]\n[algorithms]\na = ["cartpole"]\n[environments]\none = []\ntwo = ["run.minutes=1"]',
        "outside": 'seeds = [1]\n[algorithms]\n"../a" = []',
    }.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8-sig")  # as editors on Windows do
    before = set(tmp_path.rglob("*"))
    done = run("compare", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr
    assert_clear(UserError(done.stderr.strip()))
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.timeout(300)
def test_experiment_trains_missing_and_resumes_broken_off_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, logs = Path("tiny.toml"), tmp_path / "logs" / "tiny"
    config = read(["cartpole"], [*TINY, "run.logs=logs/tiny", "run.name=appo__1", "run.seed=1"])
    state = make_checkpoint(100, "model.hidden_size=16")
    checkpoint.save(logs / "appo__1" / "checkpoints" / "0000000100.pt", state._replace(config=config))
    for path in (logs / "appo__1" / "config.cfg", logs / "appo__1.cfg"):
        path.write_text(dump(config))

    def asked(text):
        file.write_text(text)
        console = Console(file=io.StringIO(), width=200)
        status = compare_experiment(file, Question(None, RETURN, None), None, console)
        return status, console.file.getvalue()

    status, said = asked(EXPERIMENT)
    assert status == 1, "one of the three cannot be trained"
    assert "Resuming at 100 agent steps" in (logs / "appo__1.log").read_text()
    assert "vast__1: training ended early with exit status 2" in said
    assert "Failed: vast__1; run the same command to retry" in said
    assert "| short | 1 |" in said
    assert (logs / "comparison.png").stat().st_size > 10_000
    for name in ("appo__1", "short__1"):
        assert int(checkpoint.newest(logs / name).stem) >= 300

    times = [path.stat().st_mtime_ns for path in sorted(logs.glob("*__1/**/*"))]
    status, said = asked(EXPERIMENT.partition("vast")[0])
    assert (status, ": training" in said) == (0, False)
    assert [path.stat().st_mtime_ns for path in sorted(logs.glob("*__1/**/*"))] == times, "nothing is done twice"

    (logs / "short__1" / "episodes.csv").rename(tmp_path / "episodes.csv")
    status, said = asked(EXPERIMENT.partition("vast")[0])
    assert (status, "| appo | 1 |" in said) == (1, True), "the others are compared all the same"
    assert "Left out: " in said
    assert "short__1: has no episodic_return yet" in said

    with pytest.raises(UserError, match="short__1: was started with another configuration"):
        asked(EXPERIMENT.replace("unroll_length=8", "unroll_length=16"))
