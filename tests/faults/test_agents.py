"""Promise 1: no agent fault stops training while a minimum of agents is healthy. Promise 2: nothing hangs."""

import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from commands import (
    END_SLOWLY,
    ENDLESS,
    EVALUATE_OFF,
    QUICK,
    REPORT_OFTEN,
    Training,
    kill_all,
    logged,
    run,
    sockets,
    steps,
    wait_for,
)
from gymnasium.spaces import Discrete

from kartrl.acting.slab import Slab, SlabShape
from kartrl.acting.supervisor import Agents
from kartrl.config import read
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import RunFailed
from kartrl.learning import checkpoint
from kartrl.metrics import episodes_csv
from kartrl.metrics.scalars_csv import values
from kartrl.processes.backoff import STRIKES, Restarts
from kartrl.processes.child import ChildProcess
from kartrl.processes.spawn import start_method

SPEC = EnvSpec("crashing", plain(2), ActionSpec.of(Discrete(2)), 0.0)
NAMED = [*QUICK, *EVALUATE_OFF, "--set", "run.name=run"]
# an agent has to come up in it, at a lower priority; half of the time in which something must be predicted or learnt
PATIENCE = ["--set", "system.step_timeout=10"]


def env(name: str) -> list[str]:
    return ["--set", f"environment.id=crashing:{name}-v0"]


def test_training_continues_when_environments_fail(tmp_path, monkeypatch):
    """Each agent's life ends in another way than the one before."""
    monkeypatch.setenv("KARTRL_TEST_SWITCH", str(tmp_path / "life"))
    causes = "RuntimeError: the cartridge fell out", "exit status 3", "no step for 10 s (system.step_timeout)"
    printed, folder = tmp_path / "printed", tmp_path / "logs" / "run"
    with printed.open("w") as file, Training(tmp_path, *ENDLESS, *env("ByTurns"), *PATIENCE, output=file) as training:
        told = [f"is being restarted after: {cause}" for cause in causes]
        wait_for(lambda: all(line in printed.read_text() for line in told), 150, "restarts after each cause")
        saved = steps(folder)
        wait_for(lambda: steps(folder) > saved, 60, "training to continue")
        training.process.send_signal(signal.SIGTERM)
        assert training.process.wait(60) == 128 + signal.SIGTERM, printed.read_text()
    assert values(folder, "system/agent_deaths")[-1] >= len(causes)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Crash", "RuntimeError: the cartridge fell out"),
        ("TurnsBad", "returned only faulty steps, the last with a reward that is not finite"),
    ],
)
def test_fault_at_the_start_ends_the_run_with_its_cause(tmp_path, name, cause):
    after = ["--set", "environment.kwargs.lifetime=130", "--set", "algorithm.unroll_length=200"]  # the first look
    result = run("train", *NAMED, *after, *env(name), *PATIENCE, cwd=tmp_path, timeout=200)
    assert result.returncode == 1
    assert cause in result.stdout
    assert "is being restarted" not in result.stdout
    assert "--resume" not in result.stdout, "there is no checkpoint"


@pytest.mark.parametrize(
    ("name", "cause"), [("ExitAtOnce", "(exit status 3)"), ("StallAtOnce", "did not answer within 10 s")]
)
def test_env_that_kills_its_process_is_reported_before_the_run(tmp_path, name, cause):
    result = run("train", *NAMED, *env(name), *PATIENCE, cwd=tmp_path, timeout=200)
    assert result.returncode == 2
    assert f"crashing:{name}-v0" in result.stderr
    assert cause in result.stderr
    assert not (tmp_path / "logs").exists()


def test_non_finite_values_discard_only_their_unroll(tmp_path):
    """Rewards and observations by turns, with two predictors and two trainers, which have whole runs too."""
    threads = ["--set", "system.predictors=2", "--set", "system.trainers=2", "--set", "run.agent_steps=4000"]
    result = run("train", *NAMED, *env("NowAndAgain"), *threads, cwd=tmp_path, faults=END_SLOWLY)
    assert result.returncode == 0, result.stdout + result.stderr
    folder = tmp_path / "logs" / "run"
    assert steps(folder) >= 4000
    assert values(folder, "system/quarantined_unrolls")[-1] > 10
    assert values(folder, "system/agent_deaths")[-1] == values(folder, "system/skipped_updates")[-1] == 0
    weights = checkpoint.load(checkpoint.newest(folder)).network
    assert all(tensor.isfinite().all() for tensor in weights.values())


@pytest.mark.parametrize("name", ["NothingButBad", "SlowlyBad"])
def test_environment_with_only_non_finite_values_ends_the_run(name, tmp_path):
    result = run("train", *NAMED, *env(name), cwd=tmp_path)
    assert result.returncode == 2
    assert f"crashing:{name}-v0: its steps have nothing but a reward that is not finite" in result.stderr


def test_one_healthy_agent_of_two_is_enough_and_none_is_not(tmp_path, monkeypatch):
    """First agent 1 keeps dying at its fifth step, so that it never finishes an unroll; at last both do, at once."""
    doomed, folder = tmp_path / "doomed", tmp_path / "logs" / "run"
    monkeypatch.setenv("KARTRL_TEST_SWITCH", str(doomed))
    more = ["--set", "system.training_batch_size=16", "--set", "run.checkpoint_minutes=60"]
    with Training(tmp_path, *ENDLESS, *env("Doomed"), *more, faults=REPORT_OFTEN) as training:
        wait_for(lambda: sum(values(folder, "speed/updates")[-1:]) > 0, 60, "updates")
        doomed.write_text("agent-1")
        wait_for(lambda: values(folder, "system/agent_deaths")[-1] >= 2, 60, "two deaths")
        before = values(folder, "speed/updates")[-1]
        wait_for(lambda: values(folder, "speed/updates")[-1] > before + 5, 120, "training to continue")
        doomed.write_text("all")
        status, output = training.end(timeout=90)
        wait_for(lambda: not training.family(), 60, "all processes to be gone")
    assert status == 1
    assert "agent 1 is being restarted after: RuntimeError: the cartridge fell out" in output
    assert "0 of 2 agents are healthy" in output
    assert "system.min_agents is 1" in output
    assert "Traceback" in output, "the cause, not only that there was one"
    assert "train --resume run" in output
    assert checkpoint.load(checkpoint.newest(folder)).counters.updates > before, "what had been learned is saved"


def replace_agent(training, number):
    """Send agent 1 this signal, and wait for its successor."""
    victim = training.role("agent-1")
    victim.send_signal(number)
    wait_for(lambda: training.roles("agent-1") not in ([], [victim]), 100, "a new agent")


def test_killed_or_stopped_agent_and_evaluator_are_replaced(tmp_path):
    evaluated = ["--set", "evaluation.minutes=0.02", "--set", "evaluation.episodes=1"]
    with Training(tmp_path, *ENDLESS, *PATIENCE, *evaluated) as training:
        folder = tmp_path / "logs" / "run"
        evaluator = training.role("evaluator")
        evaluator.kill()
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV):
            replace_agent(training, number)
            saved = steps(folder)
            wait_for(lambda: steps(folder) > saved, 60, "training to continue")  # noqa: B023
        wait_for(lambda: training.roles("evaluator") not in ([], [evaluator]), 60, "a new evaluator")
        wait_for(lambda: (folder / "best.pt").exists(), 200, "an evaluation")  # at the lowest priority
        family = training.family()
        assert len(family) >= 6, "server, fork server, two agents, logger, evaluator"
        if psutil.LINUX:  # other systems show a process's sockets to root only
            assert sockets(family) == [], "no network socket, not even on loopback"
        status, output = training.end(signal.SIGTERM)
    assert status == 128 + signal.SIGTERM, output
    for cause in ("killed by SIGKILL", "no step for 10 s (system.step_timeout)", "killed by SIGSEGV"):
        assert f"agent 1 is being restarted after: {cause}" in output
    assert "the evaluator died (exit status -9): restarting it" in output


def test_synchronous_training_with_killed_agents_stays_on_policy(tmp_path):
    options = ["--set", "algorithm.name=a2c", *PATIENCE]
    with Training(tmp_path, *ENDLESS, *options, faults=f"{REPORT_OFTEN} reading=1") as training:
        folder = tmp_path / "logs" / "run"
        wait_for(lambda: values(folder, "lag/max"), 60, "updates")
        for number in (signal.SIGKILL, signal.SIGSTOP):
            replace_agent(training, number)
            before = len(values(folder, "lag/max"))
            wait_for(lambda: len(values(folder, "lag/max")) > before + 2, 60, "training to continue")  # noqa: B023
        status, output = training.end(signal.SIGTERM)
    assert status == 128 + signal.SIGTERM, output
    assert set(values(folder, "lag/max")) == {0.0}
    assert set(values(folder, "lag/min")) == {0.0}


def test_killed_logger_is_replaced_and_logging_continues(tmp_path):
    with Training(tmp_path, *ENDLESS, "--set", "run.checkpoint_minutes=60", faults=REPORT_OFTEN) as training:
        folder = tmp_path / "logs" / "run"
        wait_for(lambda: logged(folder), 60, "the first scalars")
        before = logged(folder)
        training.role("logger").kill()
        wait_for(lambda: logged(folder)[-1].agent_steps > before[-1].agent_steps, 60, "further scalars")
        assert logged(folder)[: len(before)] == before
        status, output = training.end(signal.SIGTERM)
    assert status == 128 + signal.SIGTERM
    assert "the logger died (exit status -9): restarting it" in output
    (saved,) = checkpoint.newest_first(folder)  # of the end alone, which has the clock of the last scalars
    seconds = round(checkpoint.load(saved).counters.seconds, 2)
    for rows in (logged(folder), list(episodes_csv.read(folder))):
        times = [row.seconds for row in rows]
        assert times == sorted(times)
        assert times[-1] <= seconds, "no clock runs while the last checkpoint is saved"
    assert logged(folder)[-1].seconds == seconds, "there is one clock, which the logger's end does not restart"
    assert re.search(rf"stopped after 0:{int(seconds):02}, ", output), "it is the terminal's too"


def run_with_fault(cwd: Path, faults: str, threads: int) -> subprocess.CompletedProcess[str]:
    options = [f"system.{role}={threads}" for role in ("predictors", "trainers")]
    options += ["run.checkpoint_minutes=30", f"system.agents={2 * threads}"]
    settings = [part for option in options for part in ("--set", option)]
    return run("train", *ENDLESS, *PATIENCE, *settings, cwd=cwd, timeout=200, faults=faults)


@pytest.mark.parametrize("thread", ["predictor-1", "trainer-1"])
def test_exception_in_a_thread_ends_the_run_with_its_traceback(tmp_path, thread):
    """In the second of two, which has its share of the work."""
    result = run_with_fault(tmp_path, f"{thread}=raise@10", 2)
    assert result.returncode == 1
    assert f"{thread} failed" in result.stdout
    assert "Traceback" in result.stdout
    assert f"RuntimeError: injected at {thread}" in result.stdout


def test_stalled_run_ends_with_the_stacks_of_all_threads(tmp_path):
    # Histograms of the weights wait for the end of an update: that must not be taken for the end of a suspension;
    # a save would be one such wait, too.
    result = run_with_fault(tmp_path, "trainer-0=stall@10 histogram=5 update=4 join=2", 1)
    assert result.returncode == 1
    assert "no steps or updates for" in result.stdout
    assert "faults.py" in result.stderr, "the stack of the thread that hangs"


class Drain(threading.Thread):
    """Predictor and trainer in one: answers all requests, and keeps the first number of each step of the unrolls."""

    def __init__(self, slab: Slab) -> None:
        super().__init__(daemon=True)
        self.slab, self.done, self.predicting = slab, threading.Event(), threading.Lock()
        self.unrolls: list[tuple[set[float], list[float]]] = []  # processes, and steps of their lives
        self.seen: set[float] = set()

    def run(self) -> None:
        slab = self.slab
        while not self.done.is_set():
            waiting = slab.await_requests(64, 0.02)
            with self.predicting:
                requests = slab.gather_requests(waiting)
                if requests is not None:
                    decision = np.zeros((len(requests.group), *slab.decision.shape[2:]), np.float32)
                    begun = int((requests.step == 0).sum())
                    slab.answer_requests(requests, decision, slab.initial_state[:begun] * 0, 1)
            for block in slab.take_finished(64, 0.0):
                unrolls = slab.gather([block])
                slab.release([block])
                for unroll in unrolls.observation.swapaxes(0, 1):
                    self.unrolls.append(({*unroll[:, 0].tolist()}, unroll[:, 1].tolist()))
                    self.seen |= self.unrolls[-1][0]

    def settle(self) -> None:
        with self.predicting:
            pass


def test_unrolls_never_mix_two_lifetimes_of_an_agent():
    """Three agents are killed at random times: each unroll is of one process and has consecutive steps."""
    config = read(overrides=["environment.id=crashing:Life-v0", "system.device=cpu"])
    slab = Slab(start_method(), SlabShape(3, 2, 2, 2, 5, (2,), "float32", 3, 0))
    said: list[str] = []
    drain = Drain(slab)
    agents = Agents(config, SPEC, slab, 1, 1, drain.settle, said.append)
    chance = random.Random(1)
    agents.start()
    drain.start()
    killed: list[ChildProcess] = []
    try:
        deadline = time.monotonic() + 150
        while len(killed) < 12:
            assert time.monotonic() < deadline
            list(agents.receive(0.02))
            agents.watch(time.monotonic(), trained=True)
            alive = [agent.process for agent in agents.members if agent.process is not None]
            ready = [process for process in alive if float(process.pid) in drain.seen and process not in killed]
            if ready:
                killed.append(chance.choice(ready))
                time.sleep(chance.random() * 0.02)  # a random time
                killed[-1].kill()
        # One that was killed may not have ended yet, and has been seen: it is not back.
        wait_for(lambda: _live(agents, drain, 3) and not _any_of(agents, killed), 100, "all three agents to be back")
        wait_for(lambda: _live(agents, drain, 3) and len(drain.unrolls) > 100, 60, "enough unrolls")
        agents.watch(time.monotonic(), trained=True)
        assert [agent.restarts.strikes for agent in agents.members] == [0, 0, 0], "what happened before is forgotten"
    finally:
        drain.done.set()
        slab.stop()
        drain.join(60)
        for agent in agents.members:
            if agent.process is not None:
                agent.process.kill()
                agent.process.join(60)
    assert len(said) == 12
    assert len(drain.unrolls) > 100
    for lives, ages in drain.unrolls:
        assert len(lives) == 1, "an unroll of two processes"
        assert all(after - before in (0, 1) for before, after in itertools.pairwise(ages)), ages


def _any_of(agents: Agents, processes: list[ChildProcess]) -> bool:
    return any(agent.process in processes for agent in agents.members)


def _live(agents: Agents, drain: Drain, number: int) -> bool:
    list(agents.receive(0.02))
    agents.watch(time.monotonic(), trained=True)
    living = [float(agent.process.pid) for agent in agents.members if agent.process is not None]
    return len(living) == number and all(pid in drain.seen for pid in living)


def test_a_dead_agents_processes_end_and_it_is_replaced():
    """One that its environment has forked holds the agent's end of the pipe, so that the pipe does not end."""
    config = read(overrides=["environment.id=crashing:Forking-v0", "system.device=cpu"])
    slab = Slab(start_method(), SlabShape(1, 1, 1, 2, 5, (2,), "float32", 3, 0))
    drain = Drain(slab)
    agents = Agents(config, SPEC, slab, 1, 1, drain.settle, lambda text: None)
    agents.start()
    drain.start()
    (agent,) = agents.members
    left: list[psutil.Process] = []
    try:
        wait_for(lambda: _live(agents, drain, 1), 60, "the agent")
        left += psutil.Process(agent.process.pid).children()
        assert len(left) == 1
        os.kill(agent.process.pid, signal.SIGKILL)
        wait_for(lambda: _live(agents, drain, 1) and agents.deaths == 1, 60, "its successor")
        assert not left[0].is_running()
        left += psutil.Process(agent.process.pid).children()
        slab.stop()
        agent.process.join(60)
        assert not left[1].is_running()
    finally:
        drain.done.set()
        drain.join(60)
        if agent.process is not None:
            agent.process.kill()
        kill_all(left)


def test_backoff_doubles_until_a_useful_lifetime():
    restarts = Restarts()
    restarts.died(100.0, useful=True)
    assert restarts.due(100.0)
    pauses = []
    for _ in range(8):
        restarts.died(200.0, useful=False)
        pauses.append(next(pause for pause in range(100) if restarts.due(200.0 + pause)))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert restarts.failing
    restarts.died(300.0, useful=True)
    assert not restarts.failing
    assert restarts.total == STRIKES + 6


def test_agent_that_fails_repeatedly_is_unhealthy():
    config = read(overrides=["environment.id=crashing:CrashAtOnce-v0", "system.device=cpu"])
    slab = Slab(start_method(), SlabShape(1, 1, 1, 2, 5, (3,), "float32", 3, 0))
    drain = Drain(slab)
    agents = Agents(config, SPEC, slab, 1, 1, drain.settle, lambda text: None)
    agents.start()
    drain.start()
    try:
        with pytest.raises(RunFailed, match=r"(?s)0 of 1 agents are healthy.*Traceback.*the cartridge fell out"):
            wait_for(lambda: _live(agents, drain, 2), 100, "the end")
    finally:
        drain.done.set()
        drain.join(60)
        for agent in agents.members:
            with contextlib.suppress(AttributeError):
                agent.process.kill()
    assert agents.deaths == STRIKES
