"""Hogwild workers in real processes: killed ones are replaced, a run is saved, resumed and ended as any other."""

import signal

import pytest
from commands import EVALUATE_OFF, PACED, QUICK, REPORT_OFTEN, UNTIL_ENDED, Training, run, steps, wait_for

from kartrl.learning import checkpoint
from kartrl.metrics.scalars_csv import values

NAMED = [*QUICK, *EVALUATE_OFF, "--set", "run.name=run"]
HOGWILD = ["--set", "algorithm.name=a3c", "--set", "a3c.hogwild=true", "--set", "a3c.unroll_lengths=8 32"]


def update_counts(path):
    """The numbers of updates and steps in a checkpoint, and the count that the shared Adam kept."""
    stored = checkpoint.load(path)
    return stored.counters.updates, stored.counters.agent_steps, stored.optimizer["0/step"].item()


@pytest.mark.timeout(400)
def test_killed_hogwild_worker_is_replaced_and_run_resumed(tmp_path):
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *NAMED, *PACED, *UNTIL_ENDED, *HOGWILD, faults=REPORT_OFTEN) as training:
        wait_for(lambda: steps(folder) > 0, 120, "a checkpoint")
        victim = training.role("worker-1")
        victim.kill()
        wait_for(lambda: training.roles("worker-1") not in ([], [victim]), 60, "a new worker")
        saved = steps(folder)
        wait_for(lambda: steps(folder) > saved, 60, "training to continue")
        wait_for(lambda: values(folder, "losses/total"), 60, "losses")
        wait_for(lambda: 1 in values(folder, "system/agent_deaths"), 60, "its death to be reported")
        status, output = training.end(signal.SIGINT)
        wait_for(lambda: not training.family(), 60, "all processes to be gone")
    assert status == 128 + signal.SIGINT, output
    assert "worker 1 is being restarted after: killed by SIGKILL" in output
    updates, agent_steps, count = update_counts(checkpoint.newest(folder))
    assert agent_steps == steps(folder)
    assert updates / 2 < count <= updates + 1, "few are lost to races; the killed worker may not have noted its last"
    assert 8 * updates / 2 < agent_steps < 32 * updates
    for tag in (
        "losses/entropy",
        "losses/gradient_norm",
        "speed/agent_steps_per_second",
        "time/worker_act",
        "lag/mean",
    ):
        assert values(folder, tag), tag
    assert values(folder, "system/agent_deaths")[-1] == 1

    limit = agent_steps + 500
    result = run("train", "--resume", "run", "--set", f"run.agent_steps={limit}", cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    newest = update_counts(checkpoint.newest(folder))
    assert limit <= newest[1] < limit + 2 * 32, "no update is begun beyond the limit"
    assert newest[0] > updates
    assert newest[2] > count, "the statistics go on too"
    assert (folder / "best.pt").exists()


@pytest.mark.timeout(400)
def test_hogwild_training_continues_when_an_environment_fails(tmp_path):
    options = ["--set", "environment.id=crashing:Crash-v0", "--set", "a3c.share_statistics=false"]
    result = run("train", *NAMED, *HOGWILD, *options, "--set", "run.agent_steps=500", cwd=tmp_path, timeout=250)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "is being restarted after: RuntimeError: the cartridge fell out" in result.stdout
    folder = tmp_path / "logs" / "run"
    assert checkpoint.load(checkpoint.newest(folder)).optimizer == {}, "each worker's own are not kept"
