"""A trainer: batches finished unrolls, makes one V-trace update, publishes the weights."""

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from kartrl.algorithms.impala import Loss, impala_loss
from kartrl.config import Config
from kartrl.learning.counters import Counters
from kartrl.learning.optimizers import learning_rate, make_optimizer
from kartrl.learning.rewards import TRANSFORMS
from kartrl.learning.trajectory import Unrolls
from kartrl.metrics.stopwatch import TRAINER_STAGES, Stopwatch
from kartrl.models import Script
from kartrl.runtime.predictor_thread import RecurrentStates
from kartrl.runtime.published_weights import PublishedWeights
from kartrl.runtime.slab import WAKE_SECONDS, Slots

READ_EVERY = 20  # updates between two looks at the losses, so that the device is seldom waited for


PART_STEPS = 160  # of an update that go through the network at once, on a processor


class Batch(NamedTuple):
    """What an update is made from."""

    unrolls: Unrolls[torch.Tensor]  # [T + 1, B, ...] and [T, B], on the device
    state: torch.Tensor  # float32 [B, S], the recurrent states in which the unrolls began
    version: np.ndarray  # int64 [T, B], of the weights that acted
    steps: int  # valid ones

    def parts(self, size: int) -> Iterator[tuple[Unrolls[torch.Tensor], torch.Tensor]]:
        """The unrolls and their states, `size` unrolls at a time."""
        for begin in range(0, self.state.shape[0], size):
            part = slice(begin, begin + size)
            yield Unrolls(*(field[:, part] for field in self.unrolls)), self.state[part]


class Diverged(Exception):
    """Updates are not finite, and going back to earlier weights did not help."""


class State(NamedTuple):
    """A copy on the CPU of all that an update changes."""

    model: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]  # by "<number of the parameter>/<name>"
    counters: Counters


class Learner:
    """The network that learns, its optimizer and counters; shared by the trainer threads, owned by one at a time.

    An update whose loss or gradient is not finite is skipped: it changes nothing and is not counted. After
    `optimizer.max_skipped_updates` of them in a row, weights and optimizer go back to the last `state` that was good, once.

    Args:
        model: with the weights to begin with.
        counters: to go on counting from.
        optimizer: of `State`, to go on with; empty for a new run.

    Attributes:
        updating: held during an update; hold it to read a consistent state.
    """

    def __init__(
        self,
        config: Config,
        model: Script,
        device: torch.device,
        counters: Counters,
        optimizer: dict[str, torch.Tensor] | None = None,
    ) -> None:
        self.config, self.model, self.device, self.counters = config, model, device, counters
        self.optimizer = make_optimizer(config.optimizer, model.parameters())
        self._restore_optimizer(optimizer or {})
        self.weights = PublishedWeights(model)
        self.updating = threading.Lock()
        self.metrics: deque[dict[str, float]] = deque(maxlen=100)  # read by the server
        self.messages: deque[str] = deque(maxlen=100)  # told by the server
        self.skipped_updates = 0
        self._skipped_in_a_row = 0
        self._may_go_back = True
        self.first_update: float | None = None  # when this process made its first update, seconds since the epoch
        self.lag = 0.0  # mean policy lag of the newest batch, in updates
        self._updated = time.monotonic()  # when the last update was made
        self._longest_pause = 0.0
        # Gradients of parts add up to that of the whole; on a processor, parts that fit its cache are faster and need less memory.
        self._part = 1_000_000 if device.type == "cuda" else max(1, PART_STEPS // config.impala.unroll_length)
        self._transform = TRANSFORMS[config.impala.reward_transform]
        self._good = self.state()

    def update(self, batch: Batch, stopwatch: Stopwatch) -> None:
        """One update of the network; see `impala_loss` for the arithmetic.

        Raises:
            Diverged: too many updates in a row were not finite, for the second time.
        """
        section, lap = self.config.impala, stopwatch.lap
        start = time.monotonic()
        rate = learning_rate(self.config.optimizer, self.counters.agent_steps / self.config.run.agent_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        losses: list[Loss] = []
        for unrolls, state in batch.parts(self._part):
            logits, baseline, _ = self.model(unrolls.observation, unrolls.reset, state)
            lap("forward")
            loss = impala_loss(
                logits,
                baseline,
                unrolls.action,
                unrolls.behaviour_log_prob,
                self._transform(unrolls.reward),
                section.discount * (~unrolls.terminated),
                unrolls.valid,
                max(batch.steps, 1),
                rho_bar=section.rho_bar,
                c_bar=section.c_bar,
                baseline_cost=section.baseline_cost,
                entropy_cost=section.entropy_cost,
            )
            lap("loss")
            loss.total.backward()
            lap("backward")
            losses.append(Loss(*(term.detach() for term in loss)))
        limit = self.config.optimizer.gradient_clip or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        # On a GPU this waits for the device, once an update: the price of never stepping into weights that are lost.
        if not math.isfinite(float(norm + sum(loss.total for loss in losses))):
            self._skip()
            lap("optimizer")
            return
        self._skipped_in_a_row = 0
        self.optimizer.step()
        lap("optimizer")
        lag = self.weights.version - batch.version
        self.lag = float(lag.mean())
        self.weights.publish(self.model)
        self.counters = self.counters._replace(
            agent_steps=self.counters.agent_steps + batch.steps, updates=self.counters.updates + 1
        )
        if self.counters.updates % READ_EVERY == 0:
            self.metrics.append(
                {
                    **_scalars(losses),
                    "losses/gradient_norm": float(norm),
                    "losses/learning_rate": rate,
                    "losses/mean_reward": float(batch.unrolls.reward.mean()),
                    "lag/min": float(lag.min()),
                    "lag/mean": self.lag,
                    "lag/max": float(lag.max()),
                    "speed/update_seconds": time.monotonic() - start,
                }
            )
        self.first_update = self.first_update or time.time()
        self._longest_pause = max(self._longest_pause, time.monotonic() - self._updated)
        self._updated = time.monotonic()
        lap("publish")

    def longest_pause(self) -> float:
        """Longest time from one update to the next since the last call, in seconds; the present one counts."""
        longest, self._longest_pause = max(self._longest_pause, time.monotonic() - self._updated), 0.0
        return longest

    def state(self) -> State:
        """A consistent copy, taken between two updates. The newest one that was good is what a diverging run goes back to."""
        with self.updating:
            optimizer = {
                f"{index}/{name}": _copy(value)
                for index, state in self.optimizer.state_dict()["state"].items()
                for name, value in state.items()
            }
            state = State(
                {name: _copy(value) for name, value in self.model.state_dict().items()}, optimizer, self.counters
            )
            if self._skipped_in_a_row == 0 and all(bool(tensor.isfinite().all()) for tensor in state.model.values()):
                self._good = state
            return state

    def _skip(self) -> None:
        self.skipped_updates += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row < self.config.optimizer.max_skipped_updates:
            return
        problem = f"the loss or gradient of {self._skipped_in_a_row} updates in a row was not finite"
        if not self._may_go_back:
            raise Diverged(
                f"{problem}, again after going back to good weights; a smaller optimizer.learning_rate may help"
            )
        self._may_go_back = False
        self._skipped_in_a_row = 0
        self.model.load_state_dict(self._good.model)
        self._restore_optimizer(self._good.optimizer)
        self.weights.publish(self.model)
        self.messages.append(
            f"{problem}; weights and optimizer go back to those of {self._good.counters.agent_steps:,} agent steps"
        )

    def _restore_optimizer(self, state: dict[str, torch.Tensor]) -> None:
        self.optimizer.state.clear()
        for key, value in state.items():
            index, _, name = key.partition("/")
            parameter = self.optimizer.param_groups[0]["params"][int(index)]
            # As torch keeps it: in the parameter's layout and on its device, but for the count of steps.
            kept = value.clone() if name == "step" else torch.empty_like(parameter, requires_grad=False).copy_(value)
            self.optimizer.state[parameter][name] = kept


class TrainerThread(threading.Thread):
    """Makes updates from `blocks` blocks each until `stop` is set. With two of them, one assembles a batch while the other updates."""

    def __init__(
        self,
        name: str,
        slots: Slots,
        states: RecurrentStates,
        learner: Learner,
        blocks: int,
        assembling: threading.Lock,
        stop: threading.Event,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._slots, self._states, self._learner, self._blocks = slots, states, learner, blocks
        self._assembling, self._stop_event = assembling, stop
        self._stream = torch.cuda.Stream() if learner.device.type == "cuda" else None
        self.stopwatch = Stopwatch(TRAINER_STAGES)

    def run(self) -> None:
        while not self._stop_event.is_set():
            with self._assembling:
                chosen = self._choose()
                self.stopwatch.lap("idle")
                if chosen is None:
                    return
                batch = self._assemble(chosen)
            self.stopwatch.lap("gather")
            with self._learner.updating:
                self.stopwatch.lap("idle")
                self._learner.update(batch, self.stopwatch)

    def _choose(self) -> list[int] | None:
        """The next blocks of finished unrolls, in the order in which they were finished; None when stopping."""
        chosen: list[int] = []
        while len(chosen) < self._blocks:
            if self._stop_event.is_set():
                return None
            for block in self._slots.finished.get_many(self._blocks - len(chosen), WAKE_SECONDS):
                if self._slots.is_finished(block) and block not in chosen:
                    chosen.append(block)
        return chosen

    def _assemble(self, blocks: list[int]) -> Batch:
        """Copy the blocks to the device and give their memory back to the agents."""
        # The states are read before the blocks are given back, as a predictor will then write new ones.
        state = self._states.block[torch.tensor(blocks, device=self._learner.device)].flatten(0, 1)
        if self._stream is not None:
            torch.cuda.current_stream().synchronize()
        arrays = self._slots.gather_unrolls(blocks)
        tensors = (torch.from_numpy(array) for array in arrays)
        if self._stream is None:
            unrolls = Unrolls(*(tensor.to(self._learner.device) for tensor in tensors))
        else:  # beside the update that another thread is making
            with torch.cuda.stream(self._stream):
                unrolls = Unrolls(
                    *(tensor.pin_memory().to(self._learner.device, non_blocking=True) for tensor in tensors)
                )
            self._stream.synchronize()
        return Batch(unrolls, state, arrays.version, int(arrays.valid.sum()))


def _scalars(parts: list[Loss]) -> dict[str, float]:
    """For the logger: sums of what are shares of a mean, means of the rest."""
    sums = {f"losses/{name}": float(sum(getattr(part, name) for part in parts)) for name in Loss._fields}
    return {**sums, "losses/explained_variance": sums["losses/explained_variance"] / len(parts)}


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)
