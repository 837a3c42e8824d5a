"""Where nodes run, and what the learner knows about each."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from kartrl.metrics.stopwatch import AGENT_STAGES, PREDICTOR_STAGES
from kartrl.nodes.delivery import NodeState
from kartrl.nodes.session import Machine
from kartrl.processes.backoff import Restarts
from kartrl.training.meter import StageShares

COUNTED = ("deaths", "predictions", "batches", "quarantined")


class Place(NamedTuple):
    """Where a node runs."""

    machine: Machine
    cpus: int


class Member:
    """A node in its place as the learner sees it, across restarts."""

    def __init__(self, number: int, place: Place) -> None:
        self.name, self.number, self.place = f"node {number}", number, place
        self.actor: Any = None
        self.greeting: Any = None  # Ray's reference to its `Greeting`; None once received
        self.envs = 0  # that it steps; 0 until its greeting
        self.known: bytes | None = None  # of its newest `Greeting`
        self.restarts = Restarts()
        self.error: Exception | None = None  # of a call since its last start
        self.delivered = False  # whether it has, since its last start
        self.state = NodeState()
        self._before: Counter[str] = Counter()  # counts before its last start
        self._seconds = {"agent": np.zeros(len(AGENT_STAGES)), "predictor": np.zeros(len(PREDICTOR_STAGES))}  # likewise
        self.unrolls, self.lag = 0, 0.0  # received; mean policy lag of the newest ones
        self.stages = StageShares(
            lambda: [
                ("agent", AGENT_STAGES, [self._seconds["agent"], np.array(self.state.agent_seconds)]),
                ("predictor", PREDICTOR_STAGES, [self._seconds["predictor"], np.array(self.state.predictor_seconds)]),
            ]
        )

    def total(self, name: str) -> int:
        """A count of `NodeState`, summed across restarts."""
        return self._before[name] + int(getattr(self.state, name))

    def report(self, state: NodeState) -> None:
        """Store the node's state, unless it is older: of two answers, the older one may arrive later."""
        if sum(state.agent_seconds) >= sum(self.state.agent_seconds):
            self.state = state

    def forget_life(self) -> None:
        """Reset its state for a restart, keeping its counts."""
        self._before.update({name: getattr(self.state, name) for name in COUNTED})
        self._seconds["agent"] += self.state.agent_seconds
        self._seconds["predictor"] += self.state.predictor_seconds
        self.state, self.envs, self.greeting, self.actor = NodeState(), 0, None, None
        self.error, self.delivered = None, False


def places(machines: list[Machine], taken: list[Place], wanted: int | str, cpus: int | str) -> list[Place]:
    """Where to place further nodes.

    Args:
        taken: places of present nodes.
        wanted: total number of nodes; auto: one per machine.
        cpus: CPUs per node; auto: the machine's free ones, divided among its new nodes.
    """
    held = {machine.id: [place.cpus for place in taken if place.machine.id == machine.id] for machine in machines}
    room = {machine.id: machine.cpus - sum(held[machine.id]) for machine in machines}
    least = 1 if cpus == "auto" else int(cpus)
    new = dict.fromkeys(held, 0)
    if wanted == "auto":
        new = {one: int(not held[one] and room[one] >= least) for one in held}
    else:
        for _ in range(int(wanted) - len(taken)):
            free = [machine.id for machine in machines if room[machine.id] >= (new[machine.id] + 1) * least]
            if not free:
                break
            new[min(free, key=lambda one: len(held[one]) + new[one])] += 1
    return [
        Place(one, room[one.id] // new[one.id] if cpus == "auto" else least)
        for one in machines
        for _ in range(new[one.id])
    ]
