"""Train in an environment of one's own, defined here: python examples/own_environment.py."""

from typing import Any

import gymnasium
import numpy as np

import kartrl


class Corridor(gymnasium.Env[np.ndarray, Any]):
    """Walk right to its end: +1 there, -0.01 per step."""

    def __init__(self, length: int = 5) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin at the left end."""
        super().reset(seed=seed)
        self.place = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Go left or right."""
        self.place = max(0, self.place + (1 if action else -1))
        end = self.place == self.length
        return self._seen(), 1.0 if end else -0.01, end, False, {}

    def _seen(self) -> np.ndarray:
        return np.array([self.place / self.length], np.float32)


def make_corridor(length: int = 5) -> gymnasium.Env[Any, Any]:
    """Corridors of this length, of at most 50 steps."""
    return gymnasium.wrappers.TimeLimit(Corridor(length), 50)


if __name__ == "__main__":  # kartrl's processes import this file
    settings = {"environment.kwargs.length": 4, "run.agent_steps": 5_000, "evaluation.minutes": 0}
    config = kartrl.read_config(overrides={"environment.id": make_corridor, **settings})
    run = kartrl.train(config, progress=False)
    (result,) = kartrl.evaluate(run.policy(), episodes=5)
    print(f"lengths {[episode.agent_steps for episode in result.episodes]}")
