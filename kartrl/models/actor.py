"""A network that acts in one environment: the predictors' own sampling, for evaluation, films and play."""

from typing import Any

import numpy as np
import torch

from kartrl.envs.spec import ActionSpec
from kartrl.models import Network, make_distribution


class Actor:
    """One episode's actions.

    Args:
        network: in evaluation mode.
        action: what may be done.
        greedy: take the likeliest action rather than sample.
        seed: of the sampling; the same seed gives the same actions.
    """

    def __init__(self, network: Network, action: ActionSpec, *, greedy: bool, seed: int) -> None:
        self._network, self._action, self._greedy = network, action, greedy
        self._device = next(iter(network.parameters())).device
        self._distribution = make_distribution(action)
        self._generator = torch.Generator(self._device).manual_seed(seed)
        self._state = network.initial_state(1)
        self._first = torch.ones(1, dtype=torch.bool, device=self._device)

    @torch.inference_mode()
    def act(self, observation: Any) -> Any:
        """The action for an observation ([H, W, C] or [D]), as the environment's `step` takes it."""
        batch = torch.tensor(np.asarray(observation), device=self._device).unsqueeze(0)
        noise = self._distribution.noise(1, self._device, self._generator)
        decision, self._state = self._network.act(batch, self._first, self._state, noise, self._greedy)
        self._first = torch.zeros_like(self._first)
        return self._action.taken(decision.cpu().numpy())[0]
