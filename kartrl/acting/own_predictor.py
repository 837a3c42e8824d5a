"""An agent that runs the network itself, on the CPU, instead of asking a predictor.

This saves the messages to and from a predictor and the waits for it, which on CPUs are a tenth of the kart's work and
most of CartPole's (docs/performance.md). It makes one forward pass for all of its groups that wait: by a recorded
program or, where there is none, by PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import NamedTuple, Protocol

import numpy as np

from kartrl.acting.agent import play, telling
from kartrl.acting.agent_group import Mailbox
from kartrl.acting.messages import Requests
from kartrl.acting.program import Program, Runner, draw
from kartrl.acting.shared_weights import SharedWeights
from kartrl.acting.slab import Slab
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.machine import keep_freed_memory
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.processes.spawn import AGENT, environments_hosted, yield_cores


class OwnNetwork(NamedTuple):
    """What an agent runs the network with."""

    weights: SharedWeights
    programs: Mapping[int, Program] | None  # by the number of observations; None: PyTorch


def run(
    config: Config,
    spec: EnvSpec,
    slab: Slab,
    agent: int,
    seed: int,
    waker: Connection,
    server: Connection,
    own: OwnNetwork,
) -> None:
    """Body of an agent process; see also `agent.run`."""
    yield_cores(AGENT)
    keep_freed_memory()
    with environments_hosted(), telling(server):
        stopwatch = Stopwatch(AGENT_STAGES, slab.stage_seconds[agent])
        predictor = OwnPredictor(config, spec, slab, agent, seed, own, stopwatch)
        mailbox = Mailbox(slab, waker, predictor.serve, predictor.request)
        play(config, spec.action, slab, agent, seed, mailbox, stopwatch, server, slab.calls[agent : agent + 1])


class OwnPolicy(Protocol):
    """Chooses actions with weights of its own."""

    def load(self, flat: np.ndarray) -> None:
        """Copy the weights, float32 [n]."""

    def act(self, requests: Requests) -> tuple[np.ndarray, np.ndarray]:
        """Decisions, float32 [n, G, K], and the states before the step, float32 [m, G, S], of requests with step 0."""


class RecordedPolicy:
    """A policy by recorded programs, one for each size of a batch."""

    def __init__(self, programs: Mapping[int, Program], slab: Slab, seed: int) -> None:
        self._runners = {batch: Runner(program) for batch, program in programs.items()}
        (self._noise,) = {program.noise for program in programs.values()}
        self._random = np.random.default_rng(seed)
        self._states = np.zeros((slab.num_groups, slab.group_size, slab.initial_state.shape[-1]), np.float32)
        self._flat = np.empty(0, np.float32)

    def load(self, flat: np.ndarray) -> None:
        self._flat = flat.copy()
        for runner in self._runners.values():
            runner.load(self._flat)

    def act(self, requests: Requests) -> tuple[np.ndarray, np.ndarray]:
        number, size = requests.first.shape
        batch, before = number * size, self._states[requests.group]
        observation = requests.observation.reshape(batch, *requests.observation.shape[2:])
        arguments = [observation, requests.first.ravel(), before.reshape(batch, -1)]
        arguments.append(draw(self._random, batch, self._noise))
        if requests.restriction is not None:
            arguments.append(requests.restriction.reshape(batch, -1))
        decision, after = self._runners[batch](*arguments)
        self._states[requests.group] = after.reshape(before.shape)
        return decision.reshape(number, size, -1), before[requests.step == 0]


class OwnPredictor:
    """Answers the requests of one agent, in the agent's own process."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        slab: Slab,
        agent: int,
        seed: int,
        own: OwnNetwork,
        stopwatch: Stopwatch,
    ) -> None:
        self._slab, self._agent, self._weights, self._stopwatch = slab, agent, own.weights, stopwatch
        if own.programs is not None:
            self._policy: OwnPolicy = RecordedPolicy(own.programs, slab, seed)
        else:
            from kartrl.acting.predictor import make_own_policy

            self._policy = make_own_policy(config, spec, slab, seed)
        self._version: int | None = None
        self._waiting: list[int] = []

    def request(self, group: int) -> None:
        """Take note of a group's request. It counts as answered, as the agent must continue: else it is stalled."""
        self._slab.answered[group] = self._slab.requested[group]
        self._waiting.append(group)

    def serve(self) -> Mapping[int, int]:
        """Answer all open requests with the newest weights; return the number of the answered request, by group."""
        if not self._waiting:
            return {}
        slab, group = self._slab, np.array(sorted(self._waiting), np.int64)
        self._waiting.clear()
        self._stopwatch.lap("wait_action")
        requests = slab.read_requests(group, slab.requested[group])
        self._version = self._weights.fetch(self._policy.load, self._version)
        slab.write_decisions(requests, *self._policy.act(requests), self._version)
        slab.passes[self._agent] += 1
        self._stopwatch.lap("act")
        return dict(zip(group.tolist(), requests.number.tolist(), strict=True))
