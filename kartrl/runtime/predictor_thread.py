"""A predictor: batches the observations that wait, runs the network once, answers all of them."""

import copy
import threading
import time

import numpy as np
import torch
from torch import Tensor

from kartrl.metrics.stopwatch import PREDICTOR_STAGES, Stopwatch
from kartrl.models import Script
from kartrl.runtime.messages import Requests
from kartrl.runtime.published_weights import PublishedWeights
from kartrl.runtime.slab import WAKE_SECONDS, Slots

PATIENCE = 10  # forward passes; long, as what it waits for is on its way unless agents are reset or wait for a trainer


class RecurrentStates:
    """The recurrent states of all slots, on the device; they never travel.

    The last row of each is nobody's: what has no place to go is written there, so that shapes never vary.

    Attributes:
        group: float32 [groups + 1, G, S], before each group's next step.
        block: float32 [blocks + 1, G, S], at the start of each block of unrolls, for the trainer.
    """

    def __init__(self, slots: Slots, model: Script) -> None:
        size = slots.group_size
        self.group: Tensor = model.initial_state((slots.num_groups + 1) * size).unflatten(0, (-1, size))
        self.block: Tensor = model.initial_state((slots.num_blocks + 1) * size).unflatten(0, (-1, size))


class Policy:
    """A predictor's own copy of the network, run on whole batches of requests."""

    def __init__(self, model: Script, states: RecurrentStates, seed: int) -> None:
        self.model, self._states = model, states
        self._num_actions: int = model.policy.bias.numel()
        self.device = states.group.device
        self.random = torch.Generator(self.device).manual_seed(seed)

    def act(self, requests: Requests) -> np.ndarray:
        """Actions and their log-probabilities, float32 [n, G, 2]."""
        arrays = (requests.observation, requests.reset, requests.group, self._first(requests))
        return self._run(*(torch.from_numpy(array).to(self.device) for array in arrays)).cpu().numpy()

    def _first(self, requests: Requests) -> np.ndarray:
        """The block whose first state this is, int64 [n]; nobody's where it is not the first."""
        return np.where(requests.step == 0, requests.block, self._states.block.shape[0] - 1)

    @torch.inference_mode()
    def _run(self, observation: Tensor, reset: Tensor, group: Tensor, block: Tensor) -> Tensor:
        noise = torch.empty(reset.numel(), self._num_actions, device=self.device).exponential_(generator=self.random)
        state = self._states.group[group]
        self._states.block[block] = state
        answer, after = self.model.act(observation.flatten(0, 1), reset.flatten(), state.flatten(0, 1), noise)
        self._states.group[group] = after.view_as(state)
        return answer.view(*reset.shape, 2)


class GraphedPolicy(Policy):
    """A `Policy` on a CUDA device: one CUDA graph for each of a few batch sizes, with pinned memory at both ends.

    A batch is filled up to the next size with requests of nobody's. The graphs are recorded here, before any other
    thread uses the device.
    """

    def __init__(self, model: Script, states: RecurrentStates, seed: int, slots: Slots, limit: int) -> None:
        super().__init__(model, states, seed)
        self._sizes = sorted({min(2**power, limit) for power in range(limit.bit_length() + 1)})
        shape = (limit, *slots.observation.shape[2:])
        self._observation = torch.zeros(shape, dtype=torch.from_numpy(slots.observation[:0]).dtype, pin_memory=True)
        self._reset = torch.zeros(shape[:2], dtype=torch.bool, pin_memory=True)
        self._where = torch.zeros(2, limit, dtype=torch.int64, pin_memory=True)  # group and block
        self._answer = torch.zeros(*shape[:2], 2, pin_memory=True)
        self._stream = torch.cuda.Stream()
        self._nobody = torch.tensor([[states.group.shape[0] - 1], [states.block.shape[0] - 1]])
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._where[:] = self._nobody
        for size in reversed(self._sizes):
            with torch.cuda.stream(self._stream):
                for _ in range(3):  # TorchScript specialises in the first calls
                    self._replayed(size)
            self._stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(self.random)
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._replayed(size)
            self._graphs[size] = graph

    def _replayed(self, size: int) -> None:
        """What a graph holds: copy in, one forward pass, copy out."""
        observation, reset, where = (
            buffer.to(self.device, non_blocking=True)
            for buffer in (self._observation[:size], self._reset[:size], self._where)
        )
        self._answer[:size].copy_(self._run(observation, reset, where[0, :size], where[1, :size]), non_blocking=True)

    def act(self, requests: Requests) -> np.ndarray:
        """See `Policy`."""
        number = len(requests.group)
        size = next(size for size in self._sizes if size >= number)
        self._observation[:number].copy_(torch.from_numpy(requests.observation))
        self._reset[:number].copy_(torch.from_numpy(requests.reset))
        self._where[:] = self._nobody
        self._where[:, :number].copy_(torch.from_numpy(np.stack([requests.group, self._first(requests)])))
        with torch.cuda.stream(self._stream):
            self._graphs[size].replay()
        self._stream.synchronize()
        return self._answer[:number].numpy()


def make_policy(model: Script, states: RecurrentStates, seed: int, slots: Slots, limit: int) -> Policy:
    """The policy, with a copy of `model`, that suits its device and precision, for batches of up to `limit` groups."""
    with torch.no_grad():  # or the copies of its parameters would come from an operation, which a cast then warns of
        model = copy.deepcopy(model).eval()
    if model.encoder.bf16:
        model.encoder.to(torch.bfloat16)
    on_gpu = states.group.is_cuda
    return GraphedPolicy(model, states, seed, slots, limit) if on_gpu else Policy(model, states, seed)


class PredictorThread(threading.Thread):
    """Answers requests until `stop` is set.

    Args:
        slots: the shared slab.
        policy: a network of this thread's own.
        weights: published by the trainer.
        limit: groups in one forward pass at most.
        enough: groups that it waits for, up to `PATIENCE` forward passes long.
        stop: ends the thread.
    """

    def __init__(
        self,
        name: str,
        slots: Slots,
        policy: Policy,
        weights: PublishedWeights,
        limit: int,
        enough: int,
        stop: threading.Event,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._slots, self.policy, self._weights = slots, policy, weights
        self._limit, self.enough, self._stop_event = limit, enough, stop
        self.stopwatch = Stopwatch(PREDICTOR_STAGES)
        self.predictions, self.batches = 0, 0  # read by the server
        self.predicting = threading.Lock()
        """Held from gathering requests to answering them."""

    def run(self) -> None:
        slots, lap = self._slots, self.stopwatch.lap
        version, busy = -1, 0.001
        while not self._stop_event.is_set():
            waiting = slots.await_requests(self._limit, WAKE_SECONDS, self.enough, patience=PATIENCE * busy)
            lap("idle")
            start = time.monotonic()
            with self.predicting:
                requests = slots.gather_requests(waiting)
                if requests is None:
                    continue
                version = self._weights.fetch(self.policy.model, version)
                lap("gather")
                answer = self.policy.act(requests)
                lap("forward")
                slots.answer_requests(requests, answer[..., 0].astype("int64"), answer[..., 1], version)
                lap("scatter")
            self.predictions += requests.reset.size
            self.batches += 1
            busy += 0.1 * (time.monotonic() - start - busy)
