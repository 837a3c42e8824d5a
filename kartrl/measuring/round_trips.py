"""Measures messages between agents and a predictor alone; its agents load no torch, as those of a run."""

from __future__ import annotations

import contextlib
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from kartrl.acting.agent_group import AgentGroup, Mailbox, Stopped
from kartrl.acting.slab import Slab, SlabShape
from kartrl.errors import UserError
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch

if TYPE_CHECKING:
    from kartrl.acting.sizes import Sizes


def round_trips(context: Any, sizes: Sizes, seconds: float) -> float:
    """Requests of all agents answered per second by one thread, without environments and network."""
    shape = SlabShape(sizes.agents, sizes.groups_per_agent, sizes.group_size, 2, 1000, (1,), "uint8", 3, 0)
    slab = Slab(context, shape)
    agents = [
        context.Process(target=_echo, args=(slab, agent, slab.waker(agent)), daemon=True)
        for agent in range(sizes.agents)
    ]
    for agent in agents:
        agent.start()
    answered, start, begin = 0, 0.0, time.perf_counter()
    decision = np.zeros((slab.num_groups, *slab.decision.shape[2:]), np.float32)
    initial_state = np.zeros((slab.num_groups, *slab.initial_state.shape[1:]), np.float32)
    while not answered or time.perf_counter() - start < seconds:
        requests = slab.gather_requests(slab.await_requests(slab.num_groups, 1.0))
        finished = slab.take_finished(slab.num_blocks, 0.0)
        if finished:
            slab.gather(finished)
            slab.release(finished)
        if requests is not None:
            begun = int((requests.step == 0).sum())
            slab.answer_requests(requests, decision[: len(requests.group)], initial_state[:begun], 0)
            if start or slab.requested.all():  # all agents have started
                start = start or time.perf_counter()
                answered += len(requests.group)
        elif time.perf_counter() - begin > 60:
            raise UserError("the measuring processes do not answer")
    rate = answered / (time.perf_counter() - start)
    slab.stop()
    for agent in agents:
        agent.join(5)
        agent.kill()
    return rate


def _echo(slab: Slab, agent: int, waker: Connection) -> None:
    """An agent without environments."""
    stopwatch = Stopwatch(AGENT_STAGES)
    first = agent * slab.groups_per_agent
    mailbox = Mailbox(slab, waker)
    groups = [AgentGroup(slab, first + index, mailbox, stopwatch) for index in range(slab.groups_per_agent)]
    blank, off = np.zeros((slab.group_size, 1), np.uint8), np.zeros(slab.group_size, bool)
    with contextlib.suppress(Stopped):
        for group in groups:
            group.ask(blank, off)
        while True:
            for group in groups:
                group.answer()
                group.record(np.zeros(slab.group_size, np.float32), off, ~off, off)
                group.ask(blank, off)
