"""An agent that runs the network itself, on the CPU, instead of asking a predictor.

This saves the messages to and from a predictor and the waits for it, which on CPUs are a tenth of the kart's work and
most of CartPole's (docs/performance.md). It makes one forward pass for all of its groups that wait.
"""

from collections.abc import Mapping
from multiprocessing.connection import Connection

import numpy as np
import torch

from kartrl.acting.agent import play, telling
from kartrl.acting.agent_group import Mailbox
from kartrl.acting.predictor import group_states, make_policy
from kartrl.acting.published_weights import published
from kartrl.acting.shared_weights import SharedWeights
from kartrl.acting.slab import Slab
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.devices import keep_freed_memory
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.models import make_distribution, make_network
from kartrl.processes.spawn import AGENT, environments_hosted, yield_cores


def run(
    config: Config,
    spec: EnvSpec,
    slab: Slab,
    agent: int,
    seed: int,
    waker: Connection,
    server: Connection,
    weights: SharedWeights,
) -> None:
    """Body of an agent process; see also `agent.run`."""
    yield_cores(AGENT)
    keep_freed_memory()
    torch.set_num_threads(1)
    with environments_hosted(), telling(server):
        stopwatch = Stopwatch(AGENT_STAGES, slab.stage_seconds[agent])
        predictor = OwnPredictor(config, spec, slab, agent, seed, weights, stopwatch)
        mailbox = Mailbox(slab, waker, predictor.serve, predictor.request)
        play(config, spec.action, slab, agent, seed, mailbox, stopwatch, server, slab.calls[agent : agent + 1])


class OwnPredictor:
    """Answers the requests of one agent, in the agent's own process."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        slab: Slab,
        agent: int,
        seed: int,
        weights: SharedWeights,
        stopwatch: Stopwatch,
    ) -> None:
        self._slab, self._agent, self._weights, self._stopwatch = slab, agent, weights, stopwatch
        network = make_network(config.model, spec.observation, spec.action, heads_of(config))
        states, groups = group_states(slab, network), slab.groups_per_agent
        self._policy = make_policy(network, make_distribution(spec.action), states, seed, slab, groups)
        self._tensors = published(self._policy.network)  # listed once, as this is slow for a scripted module
        self._version: int | None = None
        self._waiting: list[int] = []

    def request(self, group: int) -> None:
        """Take note of a group's request. It counts as answered, as the agent itself has to go on: or it is stalled."""
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
        self._version = self._weights.fetch(self._tensors, self._version)
        slab.write_decisions(requests, *self._policy.act(requests), self._version)
        slab.passes[self._agent] += 1
        self._stopwatch.lap("act")
        return dict(zip(group.tolist(), requests.number.tolist(), strict=True))
