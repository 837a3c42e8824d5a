"""Rules that end a run: by its episodes, their returns, and an evaluation that confirms these."""

import re

import pytest
from commands import PACED, QUICK, run

from kartrl.config import read
from kartrl.learning import checkpoint
from kartrl.learning.counters import Counters
from kartrl.metrics.records import Confirmation
from kartrl.run.run_folder import ended_by
from kartrl.run.stopping import StopRules


def rules(*overrides: str) -> tuple[StopRules, list[str]]:
    said: list[str] = []
    return StopRules(read(overrides=[f"run.{one}" for one in overrides]).run, said.append), said


def play(rule: StopRules, *returns: float, steps: int = 0, updates: int = 1) -> bool:
    for value in returns:
        rule.add(value)
    return rule.look(Counters(steps, updates, episodes=len(returns)))


def test_limits_and_episodes_end_a_run():
    for override, counters, text in (
        ("agent_steps=1000", Counters(1024), "run.agent_steps = 1,000: 1,024 agent steps"),
        ("minutes=2", Counters(9, seconds=120.0), "run.minutes = 2: 9 agent steps"),
        ("stop_episodes_total=5", Counters(9, episodes=6), "run.stop_episodes_total = 5: 6 episodes"),
    ):
        rule, _ = rules(override)
        assert not rule.look(Counters(1, episodes=1, seconds=1.0))
        assert rule.ended_by == ""
        rule.look(counters)
        assert rule.ended_by == text


def test_return_is_confirmed_or_training_continues():
    rule, said = rules("stop_return=10", "stop_window=3", "stop_episodes=4")
    assert not play(rule, 30, 30)
    assert not play(rule, 30, updates=0), "there is no checkpoint before the first update"
    assert not said
    assert play(rule, 0), "the mean of three episodes"
    assert not play(rule, 30), "asked once"
    rule.decide(Confirmation(512, 9.5, 4))
    assert rule.ended_by == ""
    assert "9.50 in 4 greedy episodes" in said[-1]
    assert "training continues" in said[-1]
    assert not play(rule, 30, 30), "new episodes are needed"
    assert play(rule, 30)
    rule.decide(Confirmation(1024, 10.0, 4))
    assert rule.ended_by == "run.stop_return = 10: mean return 10.00 in 4 greedy episodes at 1,024 steps"


def test_return_without_episodes_to_confirm_ends_at_once():
    rule, said = rules("stop_return=-5.5", "stop_window=2", "stop_episodes=0")
    assert not play(rule, -5, -5)
    assert rule.ended_by == "run.stop_return = -5.5: mean return -5.00 in 2 training episodes"
    assert not said


def test_plateau_ends_a_run_after_its_patience():
    rule, _ = rules("patience=100", "stop_window=2")
    play(rule, 1, 2, steps=1000)
    play(rule, 2, steps=1090)
    play(rule, 1.9, steps=1189)
    rule.look(Counters(5000))
    assert rule.ended_by == "", "no new episode, no new mean"
    play(rule, 1.9, steps=1190)
    assert rule.ended_by == "run.patience = 100: no mean return of 2 episodes above 2.00 at 1,090 agent steps"


@pytest.mark.timeout(240)
def test_goal_ends_a_run_which_resumes_without_it(tmp_path):
    def train(*more: str):
        return run("train", "--plain", *more, cwd=tmp_path)

    keys = ("stop_return=7", "stop_window=5", "stop_episodes=3", "agent_steps=1e9")
    options = [part for key in keys for part in ("--set", f"run.{key}")]
    off = ["--set", "evaluation.minutes=0", "--name", "goal"]
    done = train(*QUICK, *PACED, *options, *off)
    assert done.returncode == 0, done.stdout + done.stderr
    rule = r"run\.stop_return = 7: mean return ([\d.]+) in 3 greedy episodes at ([\d,]+) steps"
    found = re.fullmatch(rf"goal \| Ended by {rule}", done.stdout.splitlines()[-1])
    assert found, done.stdout
    folder = tmp_path / "logs" / "goal"
    assert re.fullmatch(rule, ended_by(folder))
    best = checkpoint.load(folder / "best.pt")
    assert f"{best.score:.2f}" == found[1], "the best is the confirmed one"
    assert f"{best.counters.agent_steps:,}" == found[2]
    assert "ended" in run("list", cwd=tmp_path).stdout
    assert "--resume goal --set run.stop_return=none" in done.stdout

    refused = train("--resume", "goal")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.endswith("--set run.stop_return=none\n")
    higher = train("--resume", "goal", "--set", "run.stop_return=7.5", "--set", "run.checkpoint_minutes=10")
    assert higher.returncode == 0, higher.stderr
    assert ended_by(folder).startswith("run.stop_return = 7.5: "), "what it began with can be confirmed"
    last = checkpoint.newest_readable(folder)[1].counters
    again = train("--resume", "goal", "--set", "run.stop_return=none", "--steps", str(last.agent_steps + 300))
    assert again.stdout.splitlines()[-1].startswith("goal | Ended by run.agent_steps = "), again.stdout + again.stderr
    assert ended_by(folder).startswith("run.agent_steps = ")
