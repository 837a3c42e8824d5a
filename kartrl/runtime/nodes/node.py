"""A node: the acting part of a crew on one machine, as a Ray actor. Observations leave it only as whole unrolls."""

import os
import socket
import sys
import threading
import time
from collections import deque
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from kartrl.algorithms import heads_of
from kartrl.config import read
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import RunFailed, UserError
from kartrl.models import make_network
from kartrl.runtime.acting import Acting
from kartrl.runtime.auto_sizes import choose_sizes
from kartrl.runtime.child_process import end_children, resume_fork_server
from kartrl.runtime.devices import choose_device, keep_freed_memory
from kartrl.runtime.inspection import inspect_env
from kartrl.runtime.messages import EpisodeEnd
from kartrl.runtime.nodes.delivery import Delivery, NodeState, pack
from kartrl.runtime.nodes.identity import identity
from kartrl.runtime.predictor_thread import ArrivalPacing
from kartrl.runtime.processes import start_method
from kartrl.runtime.published_weights import PublishedWeights
from kartrl.runtime.role_stream import RoleStream
from kartrl.runtime.slab import WAKE_SECONDS

END_SECONDS = 3.0  # for agents to end before they are killed
LOOK_SECONDS = 0.5  # between two checks of the agents
Item = TypeVar("Item")


class Greeting(NamedTuple):
    """Sent by a node once it can act."""

    host: str
    spec: EnvSpec
    envs: int  # that it steps
    agents: int


class Node:
    """See `kartrl.runtime.nodes`. Calls are answered in threads: two of `next_unrolls` at a time.

    Errors in the constructor, or later in the agents, are raised by the calls, so that they reach the learner.

    Args:
        expected: the learner's `identity`; plain text, like `text`, as another version could not read more.
        text: the configuration.
        cpus: cores for its agents.
        seed: seed of its first agent's first environment, and of its predictors' sampling.
        compress: whether to compress observations.
    """

    def __init__(self, expected: str, text: str, cpus: int, seed: int, compress: bool) -> None:
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._collecting, self._beginning = threading.Lock(), threading.Lock()
        self._begun, self._compress = False, compress
        self._episodes: deque[EpisodeEnd] = deque()
        self._messages: deque[str] = deque()
        try:
            self._make(expected, text, cpus, seed)
        except Exception as error:
            self._failure = error

    def _make(self, expected: str, text: str, cpus: int, seed: int) -> None:
        if identity() != expected:
            raise UserError(f"kartrl there is {identity()}, and the learner's {expected}: install the same on both")
        # Otherwise each process started here would import Ray's main module, and Ray with it.
        vars(sys.modules["__main__"]).pop("__file__", None)
        context = start_method()
        keep_freed_memory()
        config = load_world(read(base=text)).prepare()
        # the learner alone decides the size of an update
        config = config.model_copy(update={"system": config.system.model_copy(update={"training_batch_size": "auto"})})
        spec = inspect_env(config)
        self._sizes = sizes = choose_sizes(config, spec, cpus)
        torch.set_num_threads(sizes.torch_threads)
        device = choose_device("auto" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu")
        network = make_network(config.model, spec.observation_shape, spec.action, heads_of(config)).to(device)
        self._weights = PublishedWeights(network, RoleStream(device), version=-1)
        self._acting = acting = Acting(config, sizes, spec, context, seed % 2**32, self._messages.append)
        acting.supervisor.start()
        pacing = ArrivalPacing(acting.slab, sizes.prediction_groups, sizes.min_groups)
        acting.make_predictors(network, self._weights, pacing, seed, device)
        envs = acting.slab.num_groups * acting.slab.group_size
        self._greeting = Greeting(socket.gethostname(), spec, envs, sizes.agents)

    def greet(self) -> Greeting:
        """Describe the node, once it is ready to act.

        Raises:
            UserError: its kartrl differs from the learner's, or its environment cannot be used.
        """
        self._check()
        return self._greeting

    def next_unrolls(self, weights: np.ndarray, version: int, enough: int) -> Delivery:
        """The next finished unrolls, as soon as there are enough.

        Args:
            weights: float32 [n], the newest; see `PublishedWeights.flat`.
            version: version of the weights.
            enough: unrolls to wait for.

        Raises:
            RunFailed: too few agents are healthy, or the node is ending.
            UserError: an agent failed on bad user input.
        """
        self._check()
        self._weights.take(weights, version)
        self._begin()
        slab, chosen = self._acting.slab, list[int]()
        with self._collecting:
            # agents can fill no more than this before blocks are released
            wanted = max(1, min(-(-enough // slab.group_size), self._sizes.training_blocks))
            while len(chosen) < wanted:
                self._check()
                for block in slab.finished.get_many(wanted - len(chosen), WAKE_SECONDS):
                    if slab.is_finished(block) and block not in chosen:
                        chosen.append(block)
            unrolls = slab.gather(chosen)
            slab.release(chosen)
        packed = None
        if self._compress and unrolls.observation.dtype == np.uint8:
            unrolls, packed = pack(unrolls)
        return Delivery(unrolls, packed, _taken(self._episodes), _taken(self._messages), self._state())

    def end(self) -> None:
        """End its agents; calls in progress fail."""
        self._stop.set()
        if self._failure is None:
            self._acting.stop()
        end_children(END_SECONDS)

    def _begin(self) -> None:
        """Start acting, once there are weights."""
        with self._beginning:
            if not self._begun:
                self._begun = True
                self._acting.begin()
                threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _watch(self) -> None:
        """Check that the agents are alive, and replace dead ones."""
        supervisor, slab = self._acting.supervisor, self._acting.slab
        try:
            while not self._stop.is_set():
                for end in supervisor.receive(LOOK_SECONDS):
                    self._episodes.append(end)
                resume_fork_server()
                supervisor.watch(time.monotonic(), trained=bool(slab.unrolls.any()))
        except Exception as error:
            self._failure = error

    def _state(self) -> NodeState:
        acting = self._acting
        quarantined = int(acting.slab.quarantined.sum())
        supervisor = acting.supervisor
        agents = tuple(acting.slab.stage_seconds.sum(0).tolist())
        predictors = tuple(map(sum, zip(*(one.stopwatch.seconds.tolist() for one in acting.predictors), strict=True)))
        counted = supervisor.deaths, acting.predictions, acting.batches, quarantined
        return NodeState(supervisor.alive, *counted, agents, predictors)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._stop.is_set():
            raise RunFailed("it is ending")


def _taken(waiting: "deque[Item]") -> list[Item]:
    """Remove and return all items; another thread may append meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting))]
