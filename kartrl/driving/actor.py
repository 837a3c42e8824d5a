"""A network that acts in some environments, with the predictors' sampling: for evaluation, videos and play."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kartrl.envs.spec import ActionSpec
from kartrl.models import Network, make_distribution

ROWS = 4  # batches are a multiple of this: kernels sum a row of a rest of fewer rows in another order


class Actor:
    """Chooses the actions of episodes that are driven together, in one forward pass for a step of all.

    What it chooses for one does not depend, to the bit, on how many others there are: a batch is filled up to a
    multiple of `ROWS`. Each episode has a row, which another may take when it has ended.

    Args:
        network: in evaluation mode.
        greedy: take the most likely action instead of sampling.
    """

    def __init__(self, network: Network, action: ActionSpec, *, greedy: bool) -> None:
        self._network, self._action, self._greedy = network, action, greedy
        self._device = next(iter(network.parameters())).device
        self._distribution = make_distribution(action)
        self._episodes: dict[int, tuple[torch.Generator, Tensor, bool]] = {}  # row -> noise, state [1, S], is new

    def begin(self, row: int, seed: int) -> None:
        """Begin an episode in a row; the same seed gives the same noise."""
        generator = torch.Generator(self._device).manual_seed(seed)
        self._episodes[row] = generator, self._network.initial_state(1), True

    def act(
        self, rows: Sequence[int], observations: Sequence[Any], restriction: np.ndarray | None = None
    ) -> np.ndarray:
        """The actions [N, ...] of `decide`, as environments take them."""
        return self._action.taken(self.decide(rows, observations, restriction))

    def memory(self, row: int) -> tuple[Tensor, bool]:
        """The recurrent state, float32 [1, S], with which a row decides next, and whether its episode begins."""
        return self._episodes[row][1:]

    @torch.inference_mode()
    def decide(
        self, rows: Sequence[int], observations: Sequence[Any], restriction: np.ndarray | None = None
    ) -> np.ndarray:
        """Decisions, float32 [N, K], see `kartrl.trajectory.Decision`, for N episodes ([H, W, C] or [D] each).

        Args:
            rows: [N], of the episodes; what others keep does not change.
            restriction: float32 [N, P], which of them are legal, see `kartrl.envs.masks`; None: all.
        """
        filled = [*range(len(rows)), *[0] * (-len(rows) % ROWS)]
        generators, states, first = zip(*(self._episodes[row] for row in rows), strict=True)
        noise = torch.cat([self._distribution.noise(1, self._device, generator) for generator in generators])[filled]
        batch = torch.from_numpy(np.stack([observations[row] for row in filled])).to(self._device)
        state, new = torch.cat(states)[filled], torch.tensor(first, device=self._device)[filled]
        legal = None if restriction is None else torch.from_numpy(restriction[filled]).to(self._device)
        decision, state = self._network.act(batch, new, state, noise, self._greedy, legal)
        for place, row in enumerate(rows):
            self._episodes[row] = generators[place], state[place : place + 1], False
        return decision[: len(rows)].cpu().numpy()
