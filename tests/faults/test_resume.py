"""What a resumed run goes on with: its curves and its random states (test_trainer_thread.py: weights, optimizer, schedule)."""

import csv
import io
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from commands import EVALUATE_OFF, QUICK, Training, run, wait_for
from policies import make_checkpoint
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kartrl import checkpoint
from kartrl.display import Display
from kartrl.envs import look_at
from kartrl.server import Server
from kartrl.tuning import choose_sizes


def newest_steps(folder: Path) -> int:
    path = checkpoint.newest(folder)
    return 0 if path is None else checkpoint.load(path).counters.agent_steps


def curves(folder: Path) -> dict[str, list[int]]:
    """The agent steps of each curve of the table, in the order of its lines."""
    steps = defaultdict(list)
    with (folder / "scalars.csv").open() as file:
        for row in csv.DictReader(file):
            steps[row["tag"]].append(int(row["agent_steps"]))
    return steps


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_after_a_kill_the_curves_go_on_without_overlap(tmp_path):
    folder = tmp_path / "logs" / "run"
    options = [*QUICK, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.checkpoint_minutes=0.3"]
    with Training(tmp_path, *options, "--set", "run.agent_steps=1000000000") as training:

        def logged_beyond_the_checkpoint() -> bool:
            saved = newest_steps(folder)
            return saved > 0 and (folder / "scalars.csv").exists() and max(map(max, curves(folder).values()), default=0) > saved

        wait_for(logged_beyond_the_checkpoint, 90, "metrics of steps after a checkpoint")
        training.process.send_signal(signal.SIGKILL)
        training.process.wait(10)
        wait_for(lambda: not training.family(), 20, "the orphans to be gone")
    saved = newest_steps(folder)
    resumed = run("train", "--resume", "run", "--set", f"run.agent_steps={saved + 3000}", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert f"Going on at {saved:,} agent steps" in resumed.stdout

    table = curves(folder)
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    for tag in ("charts/updates", "losses/total"):
        shown = [event.step for event in events.Scalars(tag)]
        for steps in (table[tag], shown):
            assert steps == sorted(set(steps)), tag
            assert steps[0] <= saved < steps[-1], tag
        assert shown == table[tag]
    updates = [event.value for event in events.Scalars("charts/updates")]
    assert updates == sorted(updates), "counters go on"


def test_random_states_go_on(tmp_path):
    stored = make_checkpoint(5, "environment.id=CartPole-v1", "system.agents=1", "system.predictors=2")
    checkpoint.save(tmp_path / "5.pt", stored)
    stored = checkpoint.load(tmp_path / "5.pt")
    world = look_at(stored.config)
    with Display(Console(file=io.StringIO()), "test") as display:
        server = Server(stored.config, choose_sizes(stored.config, world), tmp_path, world, display, stored)
        server._make_threads()
        states = {name: generator.get_state() for name, generator in server._generators().items()}
    assert states.keys() == {"torch", "predictor-0", "predictor-1"}, "a predictor that is new begins with a seed"
    for name, state in stored.random.items():
        assert torch.equal(states[name], state), name
