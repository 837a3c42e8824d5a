"""A network that acts in one environment, with the predictors' sampling: for evaluation, videos and play."""

from typing import Any

import numpy as np
import torch

from kartrl.envs.spec import ActionSpec
from kartrl.models import Network, make_distribution


class Actor:
    """Chooses the actions of one episode.

    Args:
        network: in evaluation mode.
        action: the action space.
        greedy: take the most likely action instead of sampling.
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
        """The action for an observation ([H, W, C] or [D]), as expected by the environment's `step`."""
        batch = torch.tensor(np.asarray(observation), device=self._device).unsqueeze(0)
        noise = self._distribution.noise(1, self._device, self._generator)
        decision, self._state = self._network.act(batch, self._first, self._state, noise, self._greedy)
        self._first = torch.zeros_like(self._first)
        return self._action.taken(decision.cpu().numpy())[0]
