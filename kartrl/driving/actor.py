"""A network that acts in some environments, with the predictors' sampling: for evaluation, videos and play."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kartrl.envs.spec import ActionSpec
from kartrl.models import Network, make_distribution


class Actor:
    """Chooses the actions of N episodes that are driven together, in one forward pass for a step of all.

    Args:
        network: in evaluation mode.
        action: the action space.
        greedy: take the most likely actions instead of sampling.
        seeds: [N], of each episode's sampling; the same seed gives the same noise.
    """

    def __init__(self, network: Network, action: ActionSpec, *, greedy: bool, seeds: Sequence[int]) -> None:
        self._network, self._action, self._greedy = network, action, greedy
        self._device = next(iter(network.parameters())).device
        self._distribution = make_distribution(action)
        self._generators = [torch.Generator(self._device).manual_seed(seed) for seed in seeds]
        self._state = network.initial_state(len(seeds))
        self._first = torch.ones(len(seeds), dtype=torch.bool, device=self._device)

    @torch.inference_mode()
    def act(self, observations: Sequence[Any], restriction: np.ndarray | None = None) -> np.ndarray:
        """The actions [N, ...] for observations of N episodes ([H, W, C] or [D] each), as environments take them.

        Args:
            restriction: float32 [N, P], which of them are legal, see `kartrl.envs.masks`; None: all.
        """
        batch = torch.from_numpy(np.stack(observations)).to(self._device)
        noise = torch.cat([self._distribution.noise(1, self._device, generator) for generator in self._generators])
        legal = None if restriction is None else torch.from_numpy(restriction).to(self._device)
        decision, self._state = self._network.act(batch, self._first, self._state, noise, self._greedy, legal)
        self._first = torch.zeros_like(self._first)
        return self._action.taken(decision.cpu().numpy())

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these of the N episodes only; the others have ended."""
        self._generators = [self._generators[row] for row in rows]
        self._state, self._first = self._state[list(rows)], self._first[list(rows)]
