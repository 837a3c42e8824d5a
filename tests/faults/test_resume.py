"""Resumed curves and random states (weights, optimizer and schedule: test_trainer_thread.py)."""

import contextlib
import io
import os
import signal
from pathlib import Path

import pytest
import torch
from commands import END_SLOWLY, EVALUATE_OFF, PACED, QUICK, REPORT_OFTEN, Training, run, wait_for
from policies import make_checkpoint
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kartrl.envs.worlds import load_world
from kartrl.learning import checkpoint
from kartrl.learning.counters import Counters
from kartrl.metrics import scalars_csv
from kartrl.metrics.terminal import Display
from kartrl.processes.end_request import EndRequest
from kartrl.run.crews import generators_of, restore_generators
from kartrl.run.run_folder import RunFolder
from kartrl.run.server import Server
from kartrl.sizing.auto import choose_sizes
from kartrl.sizing.inspection import inspect_env


def newest_counters(folder: Path) -> Counters:
    path = checkpoint.newest(folder)
    return Counters() if path is None else checkpoint.load(path).counters


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_curves_continue_without_overlap_after_a_kill(tmp_path):
    folder = tmp_path / "logs" / "run"
    options = [*QUICK, *PACED, *EVALUATE_OFF, "--set", "run.name=run", "--set", "run.checkpoint_minutes=0.05"]
    with Training(tmp_path, *options, "--set", "run.agent_steps=1000000000", faults=REPORT_OFTEN) as training:

        def logged_on_both_sides_of_the_checkpoint() -> bool:
            saved, logged = (
                newest_counters(folder).agent_steps,
                [row.agent_steps for row in scalars_csv.read(folder) if row.tag == "speed/updates"],
            )
            return bool(logged) and min(logged) <= saved < max(logged) and saved > 0

        wait_for(logged_on_both_sides_of_the_checkpoint, 90, "metrics of steps after a checkpoint")
        training.process.send_signal(signal.SIGKILL)
        training.process.wait(60)
        wait_for(lambda: not training.family(), 60, "the orphans to be gone")
    counters, before = newest_counters(folder), list(scalars_csv.read(folder))
    saved = counters.agent_steps
    limit = f"run.agent_steps={saved + 500}"
    resumed = run("train", "--resume", "run", "--set", limit, cwd=tmp_path, faults=END_SLOWLY)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert f"Resuming at {saved:,} agent steps" in resumed.stdout

    # a row may be of the checkpoint's steps and yet have been written after it
    kept = [row for row in before if row.agent_steps <= saved and row.seconds <= round(counters.seconds, 2)]
    after = list(scalars_csv.read(folder))
    assert after[: len(kept)] == kept
    assert not set(after) & (set(before) - set(kept)), "rows after the checkpoint are discarded"
    seconds = [row.seconds for row in after]
    assert seconds == sorted(seconds), "the table's clock continues"
    updates = [(row.agent_steps, row.value) for row in after if row.tag == "speed/updates"]
    assert updates == sorted(updates)
    assert updates[-1][0] > saved

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    shown = [(event.step, event.value) for event in events.Scalars("speed/updates")]
    assert shown == sorted(shown)
    # TensorBoard has no clock of training, so there a row of the checkpoint's steps stays
    of_these_steps = {(row.agent_steps, row.value) for row in before if row.agent_steps <= saved}
    assert set(shown) <= {*updates, *of_these_steps}
    assert shown[-1] == updates[-1]


@pytest.fixture
def end_request():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    yield EndRequest(tidy=lambda: None)
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def make_server(tmp_path, end_request):
    """Makes the server of a run that is resumed from a checkpoint."""
    with contextlib.ExitStack() as stack:

        def make(stored):
            spec = inspect_env(stored.config)
            display = stack.enter_context(Display(Console(file=io.StringIO()), "test", load_world(stored.config)))
            sizes = choose_sizes(stored.config, spec)
            return Server(stored.config, sizes, RunFolder(tmp_path), spec, display, end_request, stored)

        yield make


def test_average_network_is_resumed_beside_stateless_optimizer(make_server):
    settings = ("environment.id=CartPole-v1", "system.agents=1", "algorithm.name=acer", "optimizer.name=sgd")
    stored = make_checkpoint(5, *settings)
    average = {name: tensor + 1 for name, tensor in stored.network.items()}
    stored = stored._replace(algorithm=average)
    assert stored.optimizer == {}
    resumed = make_server(stored).crew.trainer.learner.algorithm.state_dict()
    assert resumed.keys() == average.keys()
    assert all(torch.equal(tensor, average[name]) for name, tensor in resumed.items())


def test_resume_without_update_keeps_the_checkpoint(tmp_path, make_server):
    """As after `--resume` with a wrong setting and Ctrl-C at once."""
    stored = make_checkpoint(5, "environment.id=CartPole-v1", "system.agents=1", "replay.methods=queue uniform")
    server = make_server(stored)
    server.save(1.0)
    assert not list(tmp_path.rglob("*.pt"))
    trainer = server.crew.trainer
    trainer.counters = trainer.counters._replace(updates=trainer.counters.updates + 1)
    server.save(1.0)
    assert [path.name for path in tmp_path.rglob("*.pt")] == ["0000000005.pt"]


def test_random_states_are_resumed(tmp_path, make_server):
    stored = make_checkpoint(5, "environment.id=CartPole-v1", "system.agents=1", "system.predictors=2")
    checkpoint.save(tmp_path / "5.pt", stored)
    stored = checkpoint.load(tmp_path / "5.pt")
    server = make_server(stored)
    server.crew.make_threads()
    restore_generators(server.crew, stored.config, stored)
    states = {name: generator.get_state() for name, generator in generators_of(server.crew).items()}
    assert states.keys() == {"torch", "replay", "predictor-0", "predictor-1"}, "a new predictor starts from a seed"
    for name, state in stored.random.items():
        assert torch.equal(states[name], state), name
