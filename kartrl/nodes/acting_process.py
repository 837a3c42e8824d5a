"""The process of a node that acts: agents, predictors and their slab. Observations leave it only as whole unrolls."""

import contextlib
import functools
import importlib.util
import os
import pickle
import queue
import socket
import threading
import time
from collections import deque
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from kartrl.acting.actors import Acting
from kartrl.acting.messages import EpisodeEnd
from kartrl.acting.predictor import ArrivalPacing
from kartrl.acting.published_weights import PublishedWeights
from kartrl.acting.sizes import Sizes
from kartrl.acting.slab import WAKE_SECONDS
from kartrl.algorithms import heads_of
from kartrl.config import Config, System, read
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import RunFailed, UserError
from kartrl.hardware.devices import choose_device
from kartrl.hardware.machine import keep_freed_memory
from kartrl.hardware.streams import RoleStream
from kartrl.models import make_network
from kartrl.nodes.delivery import Call, Delivery, Greeting, NodeState, pack
from kartrl.processes.child import end_children, resume_fork_server, share_fork_server
from kartrl.processes.spawn import allow_children, start_method
from kartrl.processes.watchdog import Suspension
from kartrl.sizing.auto import choose_sizes
from kartrl.sizing.inspection import inspect_env
from kartrl.sizing.precision import acting_batches, wrong, wrong_in_bf16

CONNECT_SECONDS = 120.0  # for Ray to start the node, also on a busy machine
END_SECONDS = 3.0  # for agents to end before they are killed
LOOK_SECONDS = 0.5  # between two checks of the agents
Item = TypeVar("Item")


class Known(NamedTuple):
    """What a node has found out about its place."""

    config: Config  # whose levels are prepared
    spec: EnvSpec
    sizes: Sizes


def run(
    listener: socket.socket, key: bytes | None, text: str, cpus: int, seed: int, compress: bool, known: bytes | None
) -> None:
    """Body of the process; it ends with its node.

    Args:
        listener: accepts the node's connection, through which it sends the devices that it may use, as in
            CUDA_VISIBLE_DEVICES, then `Call`s and at last None. It gets a `Greeting` and a `Delivery` for each call,
            or the `UserError` or `RunFailed` why there are no more.
        key: see `share_fork_server`.
        text: see `Host.start`, also for the rest.
    """
    allow_children()
    share_fork_server(key)
    keep_freed_memory()
    accept = functools.cache(functools.partial(_accept, listener))
    with contextlib.suppress(OSError):  # the node is gone
        try:
            _Answers(text, cpus, seed, compress, known).serve(accept())
        except Exception as error:
            told = isinstance(error, UserError | RunFailed)
            accept().send(error if told else RunFailed(f"{type(error).__name__}: {error}"))
    end_children(END_SECONDS)


def _accept(listener: socket.socket) -> Connection:
    listener.settimeout(CONNECT_SECONDS)
    with listener:
        node, _ = listener.accept()
        os.unlink(listener.getsockname())
    node.setblocking(True)
    return Connection(node.detach())


class _Answers:
    """Answers a node's calls; its agents start at once, so that they load while Ray starts the node. See `run`."""

    def __init__(self, text: str, cpus: int, seed: int, compress: bool, known: bytes | None) -> None:
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._calls: queue.SimpleQueue[int] = queue.SimpleQueue()  # unrolls that each waits for
        self._seed, self._compress = seed, compress
        self._episodes: deque[EpisodeEnd] = deque()
        self._messages: deque[str] = deque()
        self._known: Known = find_out(text, cpus) if known is None else pickle.loads(known)
        config, spec, sizes = self._known
        if compress and importlib.util.find_spec("lz4") is None:
            if config.cluster.compression == "lz4":
                raise UserError(f"cluster.compression: lz4 is not installed on {socket.gethostname()}")
            self._compress = False
        self._acting = Acting(config, sizes, spec, start_method(), seed % 2**32, self._messages.append)
        self._acting.supervisor.start()

    def serve(self, connection: Connection) -> None:
        """Answer calls until the node ends.

        Raises:
            RunFailed: too few agents are healthy.
            UserError: an agent failed on bad user input.
            EOFError, ConnectionError: the node is gone.
        """
        try:
            devices: str = connection.recv()
            self._make_predictors(devices)
            slab, host = self._acting.slab, socket.gethostname()
            envs, known = slab.num_groups * slab.group_size, pickle.dumps(self._known)
            connection.send(Greeting(host, self._known.spec, envs, slab.num_agents, known))
            threading.Thread(target=self._receive, args=(connection,), name="calls", daemon=True).start()
            begun = False
            while (enough := self._calls.get()) and not self._stop.is_set():
                if not begun:  # there are weights now
                    begun = True
                    self._acting.begin()
                    threading.Thread(target=self._watch, name="watch", daemon=True).start()
                if (delivery := self._next(enough)) is not None:
                    connection.send(delivery)
        finally:
            self._end()

    def _end(self) -> None:
        self._stop.set()
        self._acting.stop()
        self._calls.put(0)

    def _make_predictors(self, devices: str) -> None:
        (config, spec, sizes), slab = self._known, self._acting.slab
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
        torch.set_num_threads(sizes.torch_threads)
        device = choose_device("auto" if devices else "cpu")
        model, observation = config.model, spec.observation
        if (layer := wrong_in_bf16(model, observation, acting_batches(sizes), device, sizes.torch_threads)) is not None:
            self._messages.append(wrong(layer, device))
            model = model.model_copy(update={"precision": "fp32"})
        network = make_network(model, observation, spec.action, heads_of(config)).to(device)
        self._weights = PublishedWeights(network, RoleStream(device), version=-1)
        pacing = ArrivalPacing(slab, sizes.prediction_groups, sizes.min_groups)
        self._acting.make_predictors(network, self._weights, pacing, self._seed, device)

    def _receive(self, connection: Connection) -> None:
        """Take in each call's weights at once, also while an earlier one is being answered."""
        try:
            call: Call | None
            while (call := connection.recv()) is not None:
                if call.weights is not None:
                    self._weights.take(call.weights, call.version)
                self._calls.put(call.enough)
        except (EOFError, ConnectionError):  # the node is gone
            pass
        finally:
            self._end()

    def _next(self, enough: int) -> Delivery | None:
        """The next finished unrolls, as soon as there are enough; None if the node ends."""
        slab, chosen = self._acting.slab, list[int]()
        # agents can fill no more than this before blocks are released
        wanted = max(1, min(-(-enough // slab.group_size), self._known.sizes.training_blocks))
        while len(chosen) < wanted:
            if self._stop.is_set():
                return None
            if self._failure is not None:
                raise self._failure
            chosen += slab.take_finished(wanted - len(chosen), WAKE_SECONDS)
        unrolls = slab.gather(chosen)
        slab.release(chosen)
        packed = None
        if self._compress and unrolls.observation.dtype == np.uint8:
            unrolls, packed = pack(unrolls)
        return Delivery(unrolls, packed, _taken(self._episodes), _taken(self._messages), self._state())

    def _watch(self) -> None:
        """Check that the agents are alive, and replace dead ones."""
        supervisor, slab, suspension = self._acting.supervisor, self._acting.slab, Suspension(time.monotonic())
        try:
            while not self._stop.is_set():
                for end in supervisor.receive(LOOK_SECONDS):
                    self._episodes.append(end)
                resume_fork_server()
                now = time.monotonic()
                if suspension.is_over(now):
                    supervisor.rest(now)
                supervisor.watch(now, trained=bool(slab.unrolls.any()))
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


def find_out(text: str, cpus: int) -> Known:
    config = load_world(read(base=text)).prepare()
    # the learner alone decides the size of an update, and on which devices it runs; a node predicts on its CPU
    own = {name: getattr(System(), name) for name in ("training_batch_size", "devices", "predictor_devices")}
    own["device"] = "cpu"
    config = config.model_copy(update={"system": config.system.model_copy(update=own)})
    spec = inspect_env(config)
    return Known(config, spec, choose_sizes(config, spec, cpus))


def _taken(waiting: "deque[Item]") -> list[Item]:
    """Remove and return all items; another thread may append meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting))]
