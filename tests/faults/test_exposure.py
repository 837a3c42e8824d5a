"""Training opens no network socket, not even on loopback."""

import psutil
import pytest
from commands import QUICK, UNTIL_ENDED, Training, sockets, wait_for


@pytest.mark.timeout(400)
@pytest.mark.skipif(not psutil.LINUX, reason="other systems show a process's sockets to root only")
def test_no_process_of_a_run_has_a_network_socket(tmp_path):
    with Training(
        tmp_path, *QUICK, *UNTIL_ENDED, "--set", "run.name=run", "--set", "evaluation.minutes=0.01"
    ) as training:
        evaluated = tmp_path / "logs" / "run" / "best.pt"
        wait_for(evaluated.exists, 240, "an evaluation")  # at the lowest priority
        family = training.family()
        assert len(family) >= 6, "server, fork server, two agents, logger, evaluator"
        assert sockets(family) == []
