"""Several learners in real processes: what ends one ends the run, with its cause; a run goes on with another number."""

import signal

import psutil
import pytest
from commands import ENDLESS, REPORT_OFTEN, UNTIL_ENDED, Training, run, sockets, steps, wait_for

from kartrl.learning import checkpoint
from kartrl.metrics.scalars_csv import values

UNROLLS = ["--set", "algorithm.unroll_length=32"]
ONE_AGENT = [*UNROLLS, "--set", "system.agents=1", "--set", "system.envs_per_agent=2"]  # for each of them
LEARNERS = [*ONE_AGENT, "--set", "system.learners=2"]


@pytest.mark.timeout(400)
def test_lost_learner_ends_the_run_which_resumes_with_others(tmp_path):
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *ENDLESS, *LEARNERS, faults=REPORT_OFTEN) as training:
        wait_for(lambda: steps(folder) > 0, 120, "a checkpoint")
        assert len(training.roles("agent-0")) == 2, "one of each learner"
        wait_for(lambda: 2.0 in values(folder, "speed/agents"), 60, "both to be counted")
        training.roles("agent-0")[1].kill()
        wait_for(lambda: 1.0 in values(folder, "system/agent_deaths"), 60, "the death to be counted, of either learner")
        if psutil.LINUX:
            found = sockets(training.family())
            assert found
            assert all(place.laddr.ip == "127.0.0.1" for place in found), "nothing is reached from outside"
        victim = training.role("learner-1")
        victim.kill()
        status, output = training.end(timeout=60)
        wait_for(lambda: not training.family(), 60, "all processes to be gone")
    assert status == 1
    assert "kartrl: the run failed: learner 1 has ended: killed by SIGKILL\n" in output
    assert "Traceback" not in output
    assert not (folder / "learners.tmp").exists()
    stored = checkpoint.load(checkpoint.newest(folder))
    per_update = stored.counters.agent_steps / stored.counters.updates
    batch = 2 * 32  # an unroll of 32 steps from each of two environments
    assert 1.5 * batch < per_update <= 2 * batch, "the steps of both count, but for those that carry an episode's end"

    alone = ["--set", "system.learners=1", "--set", f"run.agent_steps={stored.counters.agent_steps + 300}"]
    result = run("train", "--resume", "run", *alone, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    saved = steps(folder)
    with Training(tmp_path, "--resume", "run", *UNTIL_ENDED, *LEARNERS) as again:
        wait_for(lambda: steps(folder) > saved, 120, "training to go on with two learners")
        status, output = again.end(signal.SIGINT)
        wait_for(lambda: not again.family(), 60, "all processes to be gone")
    assert status == 128 + signal.SIGINT, output
    assert "failed" not in output
    assert steps(folder) > saved
    assert values(folder, "speed/updates") == sorted(values(folder, "speed/updates"))
