"""A predictor: batches waiting requests, runs the network once, and answers all of them."""

import threading
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from kartrl import faults
from kartrl.acting.messages import Requests
from kartrl.acting.published_weights import PublishedWeights, published, spread
from kartrl.acting.slab import WAKE_SECONDS, Slab
from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.envs.spec import EnvSpec
from kartrl.hardware.streams import RoleStream
from kartrl.metrics.stopwatch import PREDICTOR_STAGES, Stopwatch
from kartrl.models import ActorCritic, Distribution, for_inference, make_distribution, make_network

PATIENCE = 10  # forward passes; long, as requests are on their way unless agents are resetting or wait for a trainer


class Pacing(Protocol):
    """Chooses the requests of a predictor's next batch, and when it may fetch newer weights.

    Attributes:
        enough: number of groups to wait for.
    """

    enough: int

    def next_groups(self, patience: float) -> Sequence[int]:
        """The groups to answer next; empty if no request arrived for a second.

        Args:
            patience: maximum time to wait for more requests, in seconds.
        """

    def may_fetch(self, requests: Requests) -> bool:
        """Whether newer weights may be fetched before these requests are answered."""


class ArrivalPacing:
    """Answers requests as they arrive, with the newest weights.

    Args:
        limit: maximum number of groups in one forward pass.
        enough: number of groups to wait for, as long as `patience` allows; may be changed at any time.
    """

    def __init__(self, slab: Slab, limit: int, enough: int) -> None:
        self._slab, self._limit, self.enough = slab, limit, enough

    def next_groups(self, patience: float) -> Sequence[int]:
        return self._slab.await_requests(self._limit, WAKE_SECONDS, self.enough, patience)

    def may_fetch(self, requests: Requests) -> bool:
        return True


def group_states(slab: Slab, network: ActorCritic) -> Tensor:
    """The recurrent states before each group's next step, float32 [groups + 1, G, S], on the device.

    The last row is a padding row, written by requests that only fill up a batch.
    """
    return network.initial_state((slab.num_groups + 1) * slab.group_size).unflatten(0, (-1, slab.group_size))


class Policy:
    """A predictor's own copy of the network, run on whole batches of requests."""

    def __init__(self, network: ActorCritic, distribution: Distribution, states: Tensor, seed: int) -> None:
        self.network, self._distribution, self._states = network, distribution, states
        self.device = states.device
        self.stream = RoleStream(self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def load(self, flat: np.ndarray) -> None:
        """Copy `published` weights, float32 [n]."""
        spread(torch.from_numpy(flat), published(self.network))

    def act(self, requests: Requests) -> tuple[np.ndarray, np.ndarray]:
        """Decisions, float32 [n, G, K], and the states before the step, float32 [m, G, S], of requests with step 0."""
        decision, before = self._run(*(torch.from_numpy(array).to(self.device) for array in _inputs(requests)))
        return decision.cpu().numpy(), before.cpu().numpy()[requests.step == 0]

    @torch.inference_mode()
    def _run(
        self, observation: Tensor, first: Tensor, group: Tensor, restriction: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        noise = self._distribution.noise(first.numel(), self.device, self.generator)
        before = self._states[group]
        state = before.flatten(0, 1)
        flat = None if restriction is None else restriction.flatten(0, 1)
        decision, after = self.network.act(observation.flatten(0, 1), first.flatten(), state, noise, False, flat)
        self._states[group] = after.view_as(before)
        return decision.view(*first.shape, -1), before


def _inputs(requests: Requests) -> list[np.ndarray]:
    """What the network reads of requests."""
    inputs = [requests.observation, requests.first, requests.group]
    return inputs if requests.restriction is None else [*inputs, requests.restriction]


class PaddedRequests:
    """Fixed buffers for requests of up to `limit` groups, padded to one of a few sizes.

    Args:
        padding_row: group number of requests that only fill up a batch.
        pinned: whether to pin the memory, so that a GPU can copy it asynchronously.

    Attributes:
        sizes: the padded sizes, in groups, ascending.
    """

    def __init__(self, slab: Slab, limit: int, padding_row: int, pinned: bool) -> None:
        self.sizes = sorted({min(2**power, limit) for power in range(limit.bit_length() + 1)})
        shape = (limit, *slab.observation.shape[2:])
        dtype = torch.from_numpy(slab.observation[:0]).dtype
        self._group = torch.full((limit,), padding_row, dtype=torch.int64, pin_memory=pinned)
        self._buffers = [
            torch.zeros(shape, dtype=dtype, pin_memory=pinned),
            torch.zeros(shape[:2], dtype=torch.bool, pin_memory=pinned),
            self._group,
        ]
        if slab.restriction.size:
            self._buffers.append(torch.zeros(limit, *slab.restriction.shape[1:], pin_memory=pinned))
        self._padding_row = padding_row

    def rows(self, size: int) -> list[Tensor]:
        """Views of observations [size, G, ...], `first` bool [size, G], groups int64 [size], and restrictions
        [size, G, P] if there are masks."""
        return [buffer[:size] for buffer in self._buffers]

    def fill(self, requests: Requests) -> int:
        """Copy the requests in; return their padded size."""
        number = len(requests.group)
        for buffer, array in zip(self.rows(number), _inputs(requests), strict=True):
            buffer.copy_(torch.from_numpy(array))
        self._group[number:] = self._padding_row
        return next(size for size in self.sizes if size >= number)


class GraphedPolicy(Policy):
    """A `Policy` on a CUDA device: one CUDA graph for each of a few batch sizes, with pinned inputs and outputs.

    The constructor captures the graphs, so call it before any other thread uses the device.
    """

    def __init__(
        self, network: ActorCritic, distribution: Distribution, states: Tensor, seed: int, slab: Slab, limit: int
    ) -> None:
        super().__init__(network, distribution, states, seed)
        self._inputs = PaddedRequests(slab, limit, padding_row=states.shape[0] - 1, pinned=True)
        self._decision = torch.zeros(limit, slab.group_size, slab.decision.shape[-1], pin_memory=True)
        self._before = torch.zeros(limit, *states.shape[1:], device=self.device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        with torch.cuda.device(self.device):
            for size in reversed(self._inputs.sizes):
                with self.stream.current():
                    for _ in range(3):  # libraries choose their algorithms in the first calls
                        self._replayed(size)
                self.stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                graph.register_generator_state(self.generator)
                with torch.cuda.graph(graph, stream=self.stream.cuda, capture_error_mode="thread_local"):
                    self._replayed(size)
                self._graphs[size] = graph

    def _replayed(self, size: int) -> None:
        """The work that a graph captures: copy in, one forward pass, copy out."""
        inputs = (buffer.to(self.device, non_blocking=True) for buffer in self._inputs.rows(size))
        decision, before = self._run(*inputs)
        self._before[:size].copy_(before)
        self._decision[:size].copy_(decision, non_blocking=True)

    def act(self, requests: Requests) -> tuple[np.ndarray, np.ndarray]:
        number, size = len(requests.group), self._inputs.fill(requests)
        with self.stream.current():
            self._graphs[size].replay()
            before = self._before[:number].cpu()
        self.stream.synchronize()
        return self._decision[:number].numpy(), before.numpy()[requests.step == 0]


def make_policy(
    network: ActorCritic, distribution: Distribution, states: Tensor, seed: int, slab: Slab, limit: int
) -> Policy:
    """A policy with its own copy of `network`, on the device of `states`, for batches of up to `limit` groups."""
    network = for_inference(network).to(states.device)
    if states.is_cuda:
        return GraphedPolicy(network, distribution, states, seed, slab, limit)
    return Policy(network, distribution, states, seed)


def make_own_policy(config: Config, spec: EnvSpec, slab: Slab, seed: int) -> Policy:
    """The policy of an agent that runs the network itself, on one thread."""
    torch.set_num_threads(1)
    network = make_network(config.model, spec.observation, spec.action, heads_of(config))
    states, distribution = group_states(slab, network), make_distribution(spec.action)
    return make_policy(network, distribution, states, seed, slab, slab.groups_per_agent)


class PredictorThread(threading.Thread):
    """Answers requests until `stop` is set.

    Args:
        policy: this thread's own copy of the network.
    """

    def __init__(
        self, name: str, slab: Slab, policy: Policy, weights: PublishedWeights, pacing: Pacing, stop: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._slab, self.policy, self._weights = slab, policy, weights
        self._pacing, self._stop_event = pacing, stop
        self.stopwatch = Stopwatch(PREDICTOR_STAGES)
        self.batches = 0  # read by the server
        self.predicting = threading.Lock()
        """Held from gathering requests to answering them."""

    def run(self) -> None:
        with self.policy.stream.current():
            self._answer()

    def _answer(self) -> None:
        slab, lap = self._slab, self.stopwatch.lap
        version, busy = -1, 0.001
        while not self._stop_event.is_set():
            groups = self._pacing.next_groups(PATIENCE * busy)
            lap("idle")
            start = time.monotonic()
            with self.predicting:
                requests = slab.gather_requests(groups)
                if requests is None:
                    continue
                if self._pacing.may_fetch(requests):
                    version = self._weights.fetch(self.policy.network, version, self.policy.stream)
                lap("gather")
                faults.reach()
                decision, initial_state = self.policy.act(requests)
                lap("forward")
                slab.answer_requests(requests, decision, initial_state, version)
                lap("scatter")
            self.batches += 1
            busy += 0.1 * (time.monotonic() - start - busy)
