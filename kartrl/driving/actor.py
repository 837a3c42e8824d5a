"""A network that acts in some environments, with the predictors' sampling: for evaluation, videos and play."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kartrl.envs.spec import ActionSpec
from kartrl.models import ActorCritic, make_distribution

ROWS = 4  # batches are a multiple of this: kernels sum a row of a rest of fewer rows in another order


class Actor:
    """Chooses the actions of episodes that are driven together, in one forward pass for a step of all.

    What it chooses for one does not depend, to the bit, on how many others there are: a batch is filled up to a
    multiple of `ROWS`. Each episode has a row, which another may take when it has ended.

    Args:
        network: in evaluation mode.
        greedy: take the most likely action instead of sampling.
    """

    def __init__(self, network: ActorCritic, action: ActionSpec, *, greedy: bool) -> None:
        self._network, self._action, self._greedy = network, action, greedy
        self._device = next(iter(network.parameters())).device
        self._distribution = make_distribution(action)
        self._generators: dict[int, torch.Generator] = {}  # of each row's noise
        self._rows: list[int] = []  # of the last call
        self._states, self._first = network.initial_state(0), torch.zeros(0, dtype=torch.bool, device=self._device)

    @torch.inference_mode()
    def begin(self, row: int, seed: int) -> None:
        """Begin an episode in a row; the same seed gives the same noise."""
        self._generators[row] = torch.Generator(self._device).manual_seed(seed)
        if (more := row + 1 - len(self._first)) > 0:
            self._states = torch.cat([self._states, self._network.initial_state(more)])
            self._first = torch.cat([self._first, self._first.new_zeros(more)])
        self._states[row], self._first[row] = 0.0, True

    def act(
        self, rows: Sequence[int], observations: Sequence[Any], restriction: np.ndarray | None = None
    ) -> np.ndarray:
        """The actions [N, ...] of `decide`, as environments take them."""
        return self._action.taken(self.decide(rows, observations, restriction))

    def memory(self, row: int) -> tuple[Tensor, bool]:
        """The recurrent state, float32 [1, S], with which a row decides next, and whether its episode begins."""
        return self._states[row : row + 1].clone(), bool(self._first[row])

    @torch.inference_mode()
    def decide(
        self, rows: Sequence[int], observations: Sequence[Any], restriction: np.ndarray | None = None
    ) -> np.ndarray:
        """Decisions, float32 [N, K], see `kartrl.trajectory.Decision`, for N episodes ([H, W, C] or [D] each).

        Args:
            rows: [N], of the episodes; what others keep does not change.
            restriction: float32 [N, P], which of them are legal, see `kartrl.envs.masks`; None: all.
        """
        if rows != self._rows:
            self._rows, self._filled = [*rows], [*range(len(rows)), *[0] * (-len(rows) % ROWS)]
            self._place = torch.tensor(self._rows, device=self._device)
            self._own = self._place[self._filled]
            self._noise = torch.zeros(len(self._filled), self._distribution.noise_size, device=self._device)
        filled, own, noise = self._filled, self._own, self._noise
        if not self._greedy:
            drawn = [self._distribution.noise(1, self._device, self._generators[row]) for row in rows]
            noise = torch.cat(drawn)[filled]
        batch = torch.from_numpy(np.stack([observations[index] for index in filled])).to(self._device)
        legal = None if restriction is None else torch.from_numpy(restriction[filled]).to(self._device)
        decision, state = self._network.act(batch, self._first[own], self._states[own], noise, self._greedy, legal)
        self._states[self._place], self._first[self._place] = state[: len(rows)], False
        return decision[: len(rows)].cpu().numpy()
