"""`kartrl/MaskedCartPole-v1`: CartPole without its velocities, which an agent can only infer from memory."""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

POSITIONS = [0, 2]  # of the cart and, as an angle, of the pole


class MaskedCartPoleEnv(CartPoleEnv):
    """Observations are float32 [2]; everything else, arguments included, is CartPole's."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        whole = self.observation_space
        assert isinstance(whole, spaces.Box)
        self.observation_space = spaces.Box(whole.low[POSITIONS], whole.high[POSITIONS], dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation[POSITIONS], info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return observation[POSITIONS], *rest
