"""Whole runs in real processes: training, resuming, deaths, and bad input."""

import os
import re
import shutil
import subprocess

import pytest
import torch
from commands import EVALUATE_OFF, PACED, QUICK, REPORT_OFTEN, UNTIL_ENDED, Training, run, start, steps, wait_for
from policies import SNAKE, save_policy

from kartrl.config import dump, read
from kartrl.config.chosen import chosen
from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv
from kartrl.models.mirror_symmetry import MirrorSymmetry


def test_train_saves_logs_and_resumes_past_damaged_checkpoint(tmp_path):
    options = [*QUICK, *EVALUATE_OFF, "--set", "run.agent_steps=8000", "--set", "run.name=run"]
    first = run("train", *options, cwd=tmp_path, fresh=True)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "100%" in first.stdout
    assert re.search(r"return \d+\.\d+ over the last \d+ of \d+ episodes", first.stdout)
    folder = tmp_path / "logs" / "run"
    trained = steps(folder)
    assert 8000 <= trained < 10000
    updates = checkpoint.load(checkpoint.newest(folder)).counters.updates
    tags = {row.tag for row in scalars_csv.read(folder)}
    assert {"charts/episodic_return", "losses/entropy", "lag/mean", "speed/agent_steps_per_second"} <= tags
    assert not (folder / "run.lock").exists()
    assert checkpoint.load(folder / "best.pt").counters.agent_steps == trained, "without evaluations, the last one"
    stored = checkpoint.load(newest := checkpoint.newest(folder))
    assert stored.most_envs == 0, "no limit"
    threads, source = stored.config.system.torch_threads, stored.provenance
    text = (folder / "config.cfg").read_text(encoding="utf-8")
    assert f"torch_threads = auto ({threads})\n" in text
    assert all(f"# {name}: {line}\n" in text for name, line in source.items())
    assert source["command"].endswith("run.agent_steps=8000 --set run.name=run")
    (events,) = folder.glob("events.*")
    assert text.encode() in events.read_bytes()
    assert f"torch_threads {threads}, " in first.stdout
    assert dump(read([folder / "config.cfg"])) == dump(stored.config)

    again = run("train", *QUICK, "--set", "run.name=run", cwd=tmp_path)
    assert again.returncode == 2
    assert "this run exists" in again.stderr

    rates = scalars_csv.values(folder, "losses/learning_rate")
    damaged = folder / "checkpoints" / "9999999999.pt"
    damaged.write_bytes(checkpoint.newest(folder).read_bytes()[:-500])
    further = ["--set", "run.agent_steps=12e3", "--set", "run.schedules=restart"]
    system = stored.config.system.model_copy(update={"torch_threads": chosen(9)})
    elsewhere = stored.config.model_copy(update={"system": system})
    checkpoint.save(newest, stored._replace(config=elsewhere, provenance={"machine": "9 cores"}))
    more = run("train", "--resume", *further, cwd=tmp_path)
    assert more.returncode == 0, more.stdout + more.stderr
    assert re.search(r"9999999999\.pt: .*; trying the previous one", more.stderr)
    assert damaged.with_suffix(".damaged").exists()
    assert f"Resuming at {trained:,} agent steps" in more.stdout
    assert f"auto chooses anew for this machine: system.torch_threads {threads} instead of 9" in more.stdout
    assert "; as before: algorithm.unroll_length " in more.stdout
    assert "Schedules restart at 0%: optimizer.learning_rate is 0.001 (linear 0.001 1e-05)" in more.stdout
    assert max(scalars_csv.values(folder, "losses/learning_rate")[len(rates) :]) > 1e-4, "it was over, at 1e-5"
    assert 12000 <= steps(folder) < 14000
    resumed = checkpoint.load(checkpoint.newest(folder))
    assert resumed.counters.updates > updates
    assert resumed.optimizer, "the optimizer goes on too"
    assert resumed.provenance["machine"] == source["machine"]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A folder in which one command has trained the runs one and two, for 1500 steps each."""
    folder = tmp_path_factory.mktemp("two_runs")
    for name in ("one", "two"):
        (folder / f"{name}.cfg").write_text(f"[run]\nname = {name}\n")
    options = [*QUICK, *EVALUATE_OFF, "--set", "run.agent_steps=1500"]
    done = run("train", "-c", "one.cfg", "-c", "two.cfg", *options, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_several_configurations_one_after_another(two_runs):  # at once: tests/faults/test_two_runs.py
    saved = [checkpoint.newest(two_runs / "logs" / name).stat().st_mtime for name in ("one", "two")]
    config = two_runs / "logs" / "two" / "config.cfg"
    assert saved[0] < config.stat().st_mtime < saved[1], "the first had ended when the second began"
    assert {path.name for path in (two_runs / "logs").iterdir()} == {"one", "two"}


@pytest.mark.timeout(240)
def test_a_new_run_begins_with_the_weights_of_another(two_runs, tmp_path):
    shutil.copytree(two_runs / "logs" / "one", tmp_path / "logs" / "one")
    given = checkpoint.load(tmp_path / "logs" / "one" / "best.pt")
    still = [*QUICK, *EVALUATE_OFF, "--set", "optimizer.learning_rate=1e-12", "--set", "run.agent_steps=1000"]
    second = run("train", *still, "--name", "two", "--init", "one", "--with-optimizer", cwd=tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    assert f"Starting from the weights of logs/one/best.pt, after {given.counters.agent_steps:,} " in second.stdout
    assert "and its optimizer; counting from 0" in second.stdout
    begun = checkpoint.load(checkpoint.newest(tmp_path / "logs" / "two"))
    assert (begun.config.run.init, begun.config.run.init_optimizer) == ("logs/one/best.pt", True)
    assert begun.counters.agent_steps < given.counters.agent_steps
    assert all(torch.allclose(tensor, given.network[name], atol=1e-6) for name, tensor in begun.network.items())
    updates = [float(made.optimizer["0/step"]) for made in (given, begun)]
    assert updates[1] > updates[0] > 0, "Adam goes on"
    refused = run("train", *QUICK, "--set", "model.hidden_size=32", "--init", "one", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "model.hidden_size is 16 there, 32 here" in refused.stderr
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"one", "two"}, "no run was begun"
    both = run("train", "--resume", "one", "--init", "two", cwd=tmp_path)
    assert (both.returncode, both.stderr.count("\n")) == (2, 1)
    assert "give only one" in both.stderr


def test_symmetric_network_stays_so_unless_first_weights_are_not(tmp_path):
    options = [*EVALUATE_OFF, "-c", "snake", "--set", "model.hidden_size=16", "--set", "run.agent_steps=3000"]
    options += ["--set", "environment.mirrored_actions=0 3 2 1"]

    def train(name, *more):
        done = run("train", *options, *more, "--name", name, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        made = checkpoint.load(tmp_path / "logs" / name / "best.pt")
        network = checkpoint.load_network(made, torch.device("cpu"))
        holds = MirrorSymmetry(network, made.observation.shape, (0, 3, 2, 1)).holds([*network.parameters()])
        return holds, "not mirror-symmetric" in done.stdout

    assert train("one") == (True, False)
    two = save_policy(tmp_path, SNAKE)
    assert train("three", "--init", str(two)) == (False, True)
    refused = run("train", *options, "--set", "environment.width=18", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "leaves 1 of 16 columns out" in refused.stderr
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"one", "three"}, "nothing is left"


@pytest.mark.timeout(240)
def test_finished_run_evaluates_and_prints_its_last_checkpoint(tmp_path):
    result = run("train", *QUICK, "--set", "run.agent_steps=1500", "--name", "my-run", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    folder = tmp_path / "logs" / "my-run"
    best = checkpoint.load(folder / "best.pt")
    assert best.counters.agent_steps == steps(folder)
    assert best.score is not None
    assert scalars_csv.values(folder, "evaluation/train_return")
    assert "Starting 2 agents" in result.stdout
    last = result.stdout.splitlines()[-5:]
    assert re.fullmatch(r"finished after \d+:\d\d, [\d,]+ steps, return [\d.]+ in the last evaluation", last[0]), last
    assert [line.split(":")[0] for line in last[1:]] == [
        "Resume",
        "Record",
        "Evaluate",
        "Ended by run.agent_steps = 1,500",
    ]
    assert last[1].endswith("train --resume my-run --set run.agent_steps=3000 --set run.schedules=stretch")
    assert last[3].endswith("evaluate -p my-run")

    again = run("train", "--resume", "my-run", cwd=tmp_path)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "is finished" in again.stderr
    assert "--set run.agent_steps=3000" in again.stderr
    assert not (folder / "run.lock").exists()
    near = run("evaluate", "-p", "my-rnu", cwd=tmp_path)
    assert (near.returncode, "did you mean the run my-run?" in near.stderr) == (2, True)
    shown = run("evaluate", "-p", "my-run", "--episodes", "1", cwd=tmp_path)
    assert (shown.returncode, "CartPole-v1" in shown.stdout) == (0, True), shown.stderr


def test_training_is_saved_when_its_starting_command_is_killed(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.cfg").write_text(f"[run]\nname = {name}\n")
    endless = [*QUICK, *PACED, *EVALUATE_OFF, *UNTIL_ENDED]
    with Training(tmp_path, "-c", "one.cfg", "-c", "two.cfg", *endless) as training:
        wait_for(lambda: steps(tmp_path / "logs" / "one") > 0, 60, "the first checkpoint")
        training.process.kill()
        wait_for(lambda: not training.family(), 60, "the end of training")
        output = training.process.stdout.read()
    assert "kartrl train --resume one" in output, "it ended as after SIGTERM"
    assert checkpoint.newest(tmp_path / "logs" / "one") is not None
    assert not (tmp_path / "logs" / "two").exists()


def test_reader_of_output_that_exits_early_is_no_traceback(tmp_path):
    process = start("config", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, fresh=True)
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(60) == 1


BAD_INPUT = {
    "mistyped command": (["trian"], "did you mean train?"),
    "mistyped action": (["circuit", "chek", "x.toml"], "did you mean check?"),
    "a shortcut's value": (["train", "--seed", "x"], "[run] seed: must be an integer (got 'x')"),
    "one run in parallel": (["train", "-c", "a.cfg", "b.cfg", "--parallel"], "-c A -c B"),
    "several configurations of one": (["config", "-c", "a.cfg", "-c", "b.cfg"], "once"),
    "tracker that is not installed": (["train", "--set", "run.tracker=mlflow"], "kartrl[mlflow]"),
    "missing config": (["train", "-c", "none.cfg"], "none.cfg: cannot read"),
    "unknown key": (["train", "--set", "run.sed=1"], "nearest valid one is 'seed'"),
    "unknown environment": (["train", "--set", "environment.id=CartPool-v1"], "CartPole"),
    "no train circuit": (
        ["train", "--set", "levels.*=none"],
        "no circuit to train on",
    ),
    "no such start state": (["train", "--set", "levels.nowhere/mine.state=train"], "nowhere/mine.state"),
    "nothing to resume": (["train", "--resume"], "no run with a checkpoint"),
    "resume what is not there": (["train", "--resume", "nowhere"], "nowhere"),
    "resume with several": (["train", "--resume", "-c", "a.cfg", "-c", "b.cfg"], "one run"),
    "optimizer of no run": (["train", "--with-optimizer"], "train --init RUN --with-optimizer"),
    "begin with what is not there": (["train", "--env", "CartPole-v1", "--init", "nowhere"], "--init nowhere: no such"),
    "several runs of one name": (["train", "-c", "pong", "-c", "cartpole", "--name", "a"], "would be logs/a"),
    "circuits and all": (["circuit", "draw", "--all", "a.toml"], "not both"),
    "missing checkpoint": (["evaluate", "-p", "none.pt"], "none.pt"),
    "record: missing checkpoint": (["record", "-l", "MarioCircuit.Act1", "-p", "none.pt"], "none.pt"),
    "missing ROM": (["import-rom", "none.sfc"], "none.sfc"),
}


def test_bad_input_is_one_line_and_status_2(tmp_path):
    for name, (arguments, message) in BAD_INPUT.items():
        result = run(*arguments, cwd=tmp_path, fresh=name == "missing ROM")
        assert (result.returncode, result.stderr.count("\n")) == (2, 1), (name, result)
        assert message in result.stderr, name
        assert "Traceback" not in result.stderr


def test_logs_that_cannot_be_written_are_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "locked").mkdir(mode=0o500)
    root = os.name != "posix" or os.geteuid() == 0  # who may write anywhere
    for logs in ("file",) if root else ("file", "locked"):
        result = run("train", *QUICK, "--set", f"run.logs={logs}", cwd=tmp_path)
        assert (result.returncode, "cannot write" in result.stderr) == (2, True), result.stderr


def test_training_learns_cartpole(tmp_path):
    """The whole system, end to end, on the quickest task there is: returns must rise well above chance (about 22)."""
    options = ["-c", "cartpole", "--set", "run.agent_steps=150000", "--set", "run.name=run"]
    folder, printed = tmp_path / "logs" / "run", tmp_path / "printed"
    with (
        printed.open("w") as file,
        Training(tmp_path, *options, *EVALUATE_OFF, faults=REPORT_OFTEN, output=file) as training,
    ):

        def learned() -> bool:
            return max(scalars_csv.values(folder, "charts/episodic_return"), default=0.0) > 100

        wait_for(lambda: learned() or training.process.poll() is not None, 200, "the end")
        assert learned(), printed.read_text()
    usual = r"Expected: about .* this configuration usually reaches a mean return of 475 after"
    assert re.search(usual, printed.read_text())
