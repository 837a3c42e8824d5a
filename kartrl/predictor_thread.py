"""A predictor: batches the observations that wait, runs the network once, answers all of them."""

import threading
import time

import torch
from torch import Tensor

from kartrl.models import Script
from kartrl.slots import WAKE_SECONDS, Slots
from kartrl.weights import PublishedWeights

BUCKETS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


class RecurrentStates:
    """The recurrent states of all slots, on the device; they never travel.

    Attributes:
        slot: float32 [N, S], before each slot's next step.
        unroll: float32 [N * ring, S], at the start of each unroll, for the trainer.
    """

    def __init__(self, slots: Slots, model: Script) -> None:
        self.slot: Tensor = model.initial_state(slots.num_slots)
        self.unroll: Tensor = model.initial_state(slots.num_slots * slots.ring)


class PredictorThread(threading.Thread):
    """Answers requests until `stop` is set.

    Args:
        slots: the shared slab.
        states: the recurrent states.
        weights: published by the trainer.
        model: a network of this thread's own.
        batch_size: observations in one forward pass at most.
        seed: of the sampling.
        stop: ends the thread.
    """

    def __init__(
        self,
        name: str,
        slots: Slots,
        states: RecurrentStates,
        weights: PublishedWeights,
        model: Script,
        batch_size: int,
        seed: int,
        stop: threading.Event,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._slots, self._states, self._weights, self._model = slots, states, weights, model
        self._batch_size, self._stop_event = batch_size, stop
        self._version = -1
        self._device = states.slot.device
        self._random = torch.Generator(self._device).manual_seed(seed)
        self.predictions, self.batches = 0, 0  # read by the server

    @torch.inference_mode()
    def run(self) -> None:
        forward_seconds = 0.001
        while not self._stop_event.is_set():
            requests = self._slots.gather_requests(self._batch_size, WAKE_SECONDS, patience=forward_seconds)
            if requests is None:
                continue
            start = time.monotonic()
            self._version = self._weights.fetch(self._model, self._version)
            size = len(requests.slot)
            padding = bucket(size) - size
            observation = _pad(torch.from_numpy(requests.observation), padding).to(self._device)
            reset = _pad(torch.from_numpy(requests.reset), padding).to(self._device)
            slot = torch.from_numpy(requests.slot).to(self._device)
            state = self._states.slot[slot]
            first = torch.from_numpy(requests.step == 0)
            if bool(first.any()):
                unroll = torch.from_numpy(requests.unroll)[first].to(self._device)
                self._states.unroll[unroll] = state[first.to(self._device)]
            logits, _, state = self._model.step(observation, reset, _pad(state, padding))
            self._states.slot[slot] = state[:size]
            log_policy = logits[:size].log_softmax(1)
            action = torch.multinomial(log_policy.exp(), 1, generator=self._random)
            log_prob = log_policy.gather(1, action)
            # One packed copy back; float32 holds small whole numbers exactly.
            answer = torch.cat([action.float(), log_prob], 1).cpu().numpy()
            self._slots.answer_requests(requests, answer[:, 0].astype("int64"), answer[:, 1], self._version)
            self.predictions += size
            self.batches += 1
            forward_seconds += 0.1 * (time.monotonic() - start - forward_seconds)


def bucket(size: int) -> int:
    """The batch size that `size` requests are padded to: few shapes, so that the network is specialised for few."""
    return next((limit for limit in BUCKETS if limit >= size), size)


def _pad(rows: Tensor, padding: int) -> Tensor:
    """`rows` with `padding` rows of zeros below."""
    return torch.cat([rows, rows.new_zeros(padding, *rows.shape[1:])]) if padding else rows
