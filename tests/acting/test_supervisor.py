"""Replacing agents where the machine does not allow another process."""

import multiprocessing

import numpy as np
import pytest
from beating import fail, live
from commands import wait_for

from kartrl.acting.agent import telling
from kartrl.acting.messages import Failure
from kartrl.acting.supervisor import Supervisor
from kartrl.config import read
from kartrl.errors import RunFailed
from kartrl.processes.spawn import spawn

CONTEXT = multiprocessing.get_context("spawn")


class Board:
    """Two processes, which never make a request."""

    num_agents = 2

    def __init__(self):
        self.unrolls = np.zeros(2, np.int64)

    def signs(self, _):
        return 0

    def may_move(self, _):
        return False


class Limited(Supervisor):
    """Can start only so many processes."""

    def __init__(self, most, body=live):
        self.said, self.most, self.made_good, self.body = [], most, [], body
        super().__init__(read(), Board(), "agent", 1, 1, 0, self.said.append)

    def _spawn(self, number, seed):
        if self.most == 0:
            raise RunFailed("too few processes may be allowed")
        self.most -= 1
        reader, writer = CONTEXT.Pipe(duplex=False)
        with writer:
            return spawn(CONTEXT, f"agent-{number}", self.body, writer), reader

    def _make_good(self, number):
        self.made_good.append(number)


def test_unstartable_agent_is_retried_while_enough_others_work():
    supervisor = Limited(most=2)
    supervisor.start()
    processes = [agent.process for agent in supervisor.members]
    try:
        processes[0].kill()
        wait_for(lambda: not processes[0].is_alive(), 60, "its end")
        for now in range(2):
            list(supervisor.receive(0.1))
            supervisor.watch(float(now), trained=True)
        supervisor.watch(10.0, trained=True)
        assert supervisor.said[-1] == (
            "agent 0 is being restarted after: cannot be started: too few processes may be allowed"
        )
        assert supervisor.made_good == [0] * supervisor.deaths
        supervisor.most = 1
        supervisor.watch(100.0, trained=True)
        assert supervisor.alive == 2
    finally:
        for agent in supervisor.members:
            agent.process.kill()
            agent.process.join(60)


def test_cause_of_several_lines_is_told_in_one():
    supervisor = Limited(most=2, body=fail)
    supervisor.start()
    for agent in supervisor.members:
        agent.process.join(60)
    for _ in range(2):
        list(supervisor.receive(1.0))
    supervisor.watch(0.0, trained=True)
    supervisor.watch(0.0, trained=True)
    for number in range(2):
        told = f"agent {number} is being restarted after: ValueError: no more levels: see the manual"
        assert told in supervisor.said


def test_broken_pipe_of_env_is_reported_of_server_ends_agent():
    reader, writer = CONTEXT.Pipe(duplex=False)
    with pytest.raises(SystemExit), telling(writer):
        raise BrokenPipeError(32, "the browser is gone")
    failure = reader.recv()
    assert isinstance(failure, Failure)
    assert "the browser is gone" in failure.reason
    reader.close()
    with telling(writer):
        writer.send(1)
    writer.close()
