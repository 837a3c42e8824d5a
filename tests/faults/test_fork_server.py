"""A fork server that is stopped or killed costs nothing but what it cannot do meanwhile."""

import signal
import subprocess
import sys

import psutil
import pytest
from commands import ENDLESS, REPORT_OFTEN, Training, environment, steps, wait_for

from kartrl.metrics.scalars_csv import values

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not known how orphans end")


def fork_server(training: Training) -> psutil.Process:
    """The parent of the newest agent."""
    return psutil.Process(training.role("agent-1").ppid())


def kill_agent(training: Training) -> None:
    """Kill one, and wait until it is replaced."""
    victim = training.role("agent-1")
    victim.kill()
    wait_for(lambda: training.roles("agent-1") not in ([], [victim]), 60, "a new agent")


def test_stopped_or_killed_fork_server_hinders_nothing(tmp_path):
    """Agents are replaced meanwhile, those of a killed one live on, and how they end is known."""
    folder = tmp_path / "logs" / "run"
    with Training(tmp_path, *ENDLESS, faults=REPORT_OFTEN) as training:
        wait_for(lambda: steps(folder) > 0, 60, "a checkpoint")
        stopped = fork_server(training)
        stopped.suspend()
        kill_agent(training)
        before = [training.role("agent-0")], [training.role("logger")]
        stopped.kill()
        kill_agent(training)
        reports = len(values(folder, "speed/updates"))
        wait_for(lambda: len(values(folder, "speed/updates")) > reports + 2, 60, "reports")
        assert (training.roles("agent-0"), training.roles("logger")) == before
        successor = fork_server(training)
        assert successor != stopped
        successor.suspend()
        training.role("agent-1").suspend()  # which is to be killed at the end
        status, output = training.end(signal.SIGTERM)
        wait_for(lambda: not training.family(), 60, "all processes to be gone")
    assert status == 128 + signal.SIGTERM, output
    assert output.count("agent 1 is being restarted after: killed by SIGKILL") == 2
    assert "logger died" not in output


def test_exit_of_processes_killed_with_fork_server_is_known():
    """Until it has ended altogether, they are still its children and not the server's."""
    result = subprocess.run(
        [sys.executable, "-m", "orphans"], env=environment(), capture_output=True, text=True, timeout=250
    )
    assert result.stdout.split() == [str(-signal.SIGKILL)] * 8, result.stderr
