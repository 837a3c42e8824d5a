"""A trainer: batches finished unrolls, makes one V-trace update, publishes the weights."""

import threading
import time
from collections import deque
from typing import Any

import numpy as np
import torch

from kartrl.algorithms.loss import impala_loss
from kartrl.algorithms.optimizers import learning_rate, make_optimizer
from kartrl.algorithms.rewards import TRANSFORMS
from kartrl.config import Config
from kartrl.models import Script
from kartrl.predictor_thread import RecurrentStates
from kartrl.slots import WAKE_SECONDS, Slots
from kartrl.types import Counters, Unrolls
from kartrl.weights import PublishedWeights

READ_EVERY = 20  # updates between two looks at the losses, so that the device is seldom waited for


class Learner:
    """The network that learns, its optimizer and counters; shared by the trainer threads, owned by one at a time.

    Attributes:
        updating: held during an update; hold it to read a consistent state.
    """

    def __init__(self, config: Config, model: Script, device: torch.device, counters: Counters) -> None:
        self.config, self.model, self.device, self.counters = config, model, device, counters
        self.optimizer = make_optimizer(config.optimizer, model.parameters())
        self.weights = PublishedWeights(model)
        self.updating = threading.Lock()
        self.metrics: deque[dict[str, float]] = deque(maxlen=100)  # read by the server
        self.lag = 0.0  # mean policy lag of the newest batch, in updates
        self._transform = TRANSFORMS[config.impala.reward_transform]

    def update(self, unrolls: Unrolls[np.ndarray], state: torch.Tensor) -> None:
        """One update of the network from a batch of unrolls; see `impala_loss` for the arithmetic.

        Args:
            unrolls: [T + 1, B, ...] and [T, B].
            state: float32 [B, S], the recurrent states in which the unrolls began.
        """
        section = self.config.impala
        start = time.monotonic()
        rate = learning_rate(self.config.optimizer, self.counters.agent_steps / self.config.run.agent_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = Unrolls[torch.Tensor](*(torch.from_numpy(array).to(self.device, non_blocking=True) for array in unrolls))
        logits, baseline, _ = self.model(batch.observation, batch.reset, state)
        loss = impala_loss(
            logits,
            baseline,
            batch.action,
            batch.behaviour_log_prob,
            self._transform(batch.reward),
            section.discount * (~batch.terminated),
            batch.valid,
            rho_bar=section.rho_bar,
            c_bar=section.c_bar,
            baseline_cost=section.baseline_cost,
            entropy_cost=section.entropy_cost,
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        limit = self.config.optimizer.gradient_clip or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        self.optimizer.step()
        lag = self.weights.version - unrolls.version
        self.lag = float(lag.mean())
        self.weights.publish(self.model)
        self.counters = self.counters._replace(
            agent_steps=self.counters.agent_steps + int(unrolls.valid.sum()), updates=self.counters.updates + 1
        )
        if self.counters.updates % READ_EVERY == 0:
            self.metrics.append(
                {
                    "losses/total": float(loss.total.detach()),
                    "losses/policy_gradient": float(loss.policy_gradient),
                    "losses/baseline": float(loss.baseline),
                    "losses/entropy": float(loss.entropy),
                    "losses/explained_variance": float(loss.explained_variance),
                    "losses/importance_ratio": float(loss.importance_ratio),
                    "losses/gradient_norm": float(norm),
                    "losses/learning_rate": rate,
                    "losses/mean_reward": float(np.mean(unrolls.reward)),
                    "lag/min": float(lag.min()),
                    "lag/mean": self.lag,
                    "lag/max": float(lag.max()),
                    "speed/update_seconds": time.monotonic() - start,
                }
            )

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any], Counters]:
        """A consistent copy of weights, optimizer and counters, taken between two updates."""
        with self.updating:
            return _copy(self.model.state_dict()), _copy(self.optimizer.state_dict()), self.counters


class TrainerThread(threading.Thread):
    """Makes updates until `stop` is set. Several of them overlap assembling a batch with another's update."""

    def __init__(
        self, name: str, slots: Slots, states: RecurrentStates, learner: Learner, assembling: threading.Lock, stop: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._slots, self._states, self._learner = slots, states, learner
        self._assembling, self._stop_event = assembling, stop

    def run(self) -> None:
        while not self._stop_event.is_set():
            with self._assembling:
                batch = self._assemble()
            if batch is not None:
                with self._learner.updating:
                    self._learner.update(*batch)

    def _assemble(self) -> tuple[Unrolls[np.ndarray], torch.Tensor] | None:
        """The next batch of finished unrolls, in the order in which they were finished; None when stopping."""
        wanted = self._learner.config.system.training_batch_size
        chosen: list[int] = []
        while len(chosen) < wanted:
            if self._stop_event.is_set():
                return None
            for unroll in self._slots.finished.get_many(wanted - len(chosen), WAKE_SECONDS):
                if self._slots.is_finished(unroll) and unroll not in chosen:
                    chosen.append(unroll)
        # The states are read before the unrolls are given back, as a predictor will then write new ones.
        state = self._states.unroll[torch.tensor(chosen, device=self._learner.device)].clone()
        return self._slots.gather_unrolls(chosen), state


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    """A deep copy on the CPU of a state dict."""
    return {
        key: value.detach().to("cpu", copy=True)
        if isinstance(value, torch.Tensor)
        else (_copy(value) if isinstance(value, dict) else value)
        for key, value in state.items()
    }
