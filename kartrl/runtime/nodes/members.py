"""Where nodes are, and what the learner knows of each."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from kartrl.metrics.stopwatch import AGENT_STAGES, PREDICTOR_STAGES
from kartrl.runtime.backoff import Restarts
from kartrl.runtime.meter import StageShares
from kartrl.runtime.nodes.delivery import NodeState
from kartrl.runtime.nodes.session import Machine

COUNTED = ("deaths", "predictions", "batches", "quarantined")


class Place(NamedTuple):
    """Where a node is."""

    machine: Machine
    cpus: int


class Member:
    """A node, as the learner sees it, in all its lives in this place."""

    def __init__(self, number: int, place: Place) -> None:
        self.name, self.number, self.place = f"node {number}", number, place
        self.actor: Any = None
        self.greeting: Any = None  # a reference to what it will say of itself; None when it has said that
        self.envs = 0  # that it steps; 0 until it has greeted
        self.restarts = Restarts()
        self.error: Exception | None = None  # that a call of this life has ended with
        self.delivered = False  # whether this life has
        self.state = NodeState()
        self._before: Counter[str] = Counter()  # what earlier lives counted
        self._seconds = {"agent": np.zeros(len(AGENT_STAGES)), "predictor": np.zeros(len(PREDICTOR_STAGES))}  # theirs
        self.unrolls, self.lag = 0, 0.0  # taken in; mean policy lag of the newest ones
        self.stages = StageShares(
            lambda: [
                ("agent", AGENT_STAGES, [self._seconds["agent"], np.array(self.state.agent_seconds)]),
                ("predictor", PREDICTOR_STAGES, [self._seconds["predictor"], np.array(self.state.predictor_seconds)]),
            ]
        )

    def total(self, name: str) -> int:
        """Of all its lives, what `NodeState` counts."""
        return self._before[name] + int(getattr(self.state, name))

    def report(self, state: NodeState) -> None:
        """Take in what the node says of itself; of two calls' answers the older one may come later."""
        if sum(state.agent_seconds) >= sum(self.state.agent_seconds):
            self.state = state

    def forget_life(self) -> None:
        """Its state begins anew with the next one."""
        self._before.update({name: getattr(self.state, name) for name in COUNTED})
        self._seconds["agent"] += self.state.agent_seconds
        self._seconds["predictor"] += self.state.predictor_seconds
        self.state, self.envs, self.greeting, self.actor = NodeState(), 0, None, None
        self.error, self.delivered = None, False


def places(machines: list[Machine], taken: list[Place], wanted: int | str, cpus: int | str) -> list[Place]:
    """Where further nodes go.

    Args:
        machines: those that there are.
        taken: by nodes.
        wanted: nodes in all; auto: one on each machine.
        cpus: of each node; auto: its machine's, shared by the nodes there.
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
