"""Prioritised replay (Schaul et al. 2016, arXiv:1511.05952), of unrolls as in R2D2 (Kapturowski et al. 2019)."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch

from kartrl.replay.replay import Replay
from kartrl.replay.unroll_memory import UnrollMemory

SMALLEST = 1e-6  # priority, so that unrolls without error are drawn occasionally


class PrioritisedReplay(Replay):
    """Draws an unroll with a probability proportional to its priority^alpha, with replacement (equation 1).

    The priority is the unroll's TD error in the latest update that learned from it (`learn`); until then it is the
    largest priority held. Importance weights (N P)^-beta are divided by the largest in the sample (section 3.4).

    Args:
        priority_exponent: alpha.
        importance_exponent: returns the current beta.
    """

    learns: ClassVar[bool] = True

    def __init__(
        self,
        memory: UnrollMemory,
        capacity: int,
        generator: torch.Generator,
        priority_exponent: float,
        importance_exponent: Callable[[], float],
    ) -> None:
        super().__init__(memory, capacity, generator)
        self._alpha, self._beta = priority_exponent, importance_exponent
        self.priorities = np.ones(capacity)
        self._slots: dict[int, int] = {}  # by serial number

    def learn(self, serials: np.ndarray, errors: np.ndarray) -> None:
        for serial, error in zip(serials.tolist(), errors.tolist(), strict=True):
            slot = self._slots.get(serial)
            if slot is not None and self.serials[slot] == serial:
                self.priorities[slot] = max(error, SMALLEST)

    def scalars(self) -> dict[str, float]:
        priorities = self.priorities[self.slots()]
        if not len(priorities):
            return {}
        largest = {"priority_mean": float(priorities.mean()), "priority_max": float(priorities.max())}
        return super().scalars() | largest

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {"priorities": self.priorities.copy()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        priorities = state["priorities"]
        if not (np.isfinite(priorities) & (priorities > 0)).all():
            raise ValueError("priorities")
        super().load_state(state)
        self.priorities = priorities
        self._slots = {serial: slot for slot, serial in enumerate(self.serials.tolist()) if serial >= 0}

    def _draw(self, unrolls: int) -> tuple[np.ndarray, np.ndarray]:
        slots = self.slots()
        bounds = np.cumsum(self.priorities[slots] ** self._alpha)
        points = torch.rand(unrolls, generator=self.generator, dtype=torch.float64).numpy() * bounds[-1]
        drawn = slots[np.minimum(np.searchsorted(bounds, points, side="right"), len(slots) - 1)]
        rarity = self.priorities[drawn] ** (-self._alpha * self._beta())  # N and the sum of priorities cancel
        return drawn, (rarity / rarity.max()).astype(np.float32)

    def _put(self, slot: int, serial: int) -> None:
        others = self.priorities[self.slots()[:-1]]
        before = int(self.serials[slot])
        if self._slots.get(before) == slot:  # after `forget`, serial numbers begin again
            del self._slots[before]
        super()._put(slot, serial)
        self.priorities[slot] = others.max() if len(others) else 1.0
        self._slots[serial] = slot
