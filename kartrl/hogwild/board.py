"""The state that Hogwild workers and their server share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kartrl.hardware.shared_tensors import SharedTensors
from kartrl.learning.counters import Counters
from kartrl.metrics.stopwatch import WORKER_STAGES


class HogwildBoard:
    """The parameters, the optimizer's statistics, and each worker's counts, which it alone writes.

    Args:
        workers: number of processes.
        network: the network's initial state.
        statistics: the optimizer's initial state; empty if each worker keeps its own.
    """

    def __init__(self, workers: int, network: Mapping[str, Tensor], statistics: Mapping[str, Tensor]) -> None:
        self.num_agents = workers
        self.network, self.statistics = SharedTensors(network), SharedTensors(statistics)
        each = torch.zeros(workers, dtype=torch.int64)
        names = ("steps", "updates", "unrolls", "quarantined", "moves", "calls", "skipped", "in_a_row")
        self._counts = SharedTensors(
            dict.fromkeys(names, each)
            | {
                "stage_seconds": torch.zeros(workers, len(WORKER_STAGES), dtype=torch.float64),
                "updated": torch.zeros(workers, dtype=torch.float64),
                "began": torch.zeros(1, dtype=torch.float64),
                "stopping": torch.zeros(1, dtype=torch.bool),
            }
        )
        self._view()

    steps: np.ndarray  # int64 [workers], trained on
    updates: np.ndarray  # int64 [workers]
    unrolls: np.ndarray  # int64 [workers], finished, without quarantined ones
    quarantined: np.ndarray  # int64 [workers], unrolls with non-finite numbers
    moves: np.ndarray  # int64 [workers], forward passes that chose actions
    calls: np.ndarray  # int64 [workers], environments made, and their resets and steps
    skipped: np.ndarray  # int64 [workers], updates that were not finite
    in_a_row: np.ndarray  # int64 [workers], of these, the newest consecutive ones
    stage_seconds: np.ndarray  # float64 [workers, stages]
    updated: np.ndarray  # float64 [workers], monotonic time of the newest update
    began: np.ndarray  # float64 [1], monotonic time of the run's first step, or 0; written by the server
    stopping: np.ndarray  # bool [1], written by the server

    def _view(self) -> None:
        for name, tensor in self._counts.items():
            setattr(self, name, tensor.numpy())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._counts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._view()

    def counters(self, before: Counters) -> Counters:
        """The counters of a run that continues from `before`, without updated seconds."""
        steps, updates = int(self.steps.sum()), int(self.updates.sum())
        return before._replace(agent_steps=before.agent_steps + steps, updates=before.updates + updates)

    # As `agent_supervisor.Board`

    def signs(self, agent: int) -> int:
        return int(self.moves[agent] + self.calls[agent])

    def may_move(self, agent: int) -> bool:
        """Always True: a worker waits for no one."""
        return True
