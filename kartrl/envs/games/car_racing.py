"""`kartrl/CarRacing-v3`: Gymnasium's CarRacing with a choice of actions, each held for some frames.

Tracks, pictures, rewards and the limit of 1,000 frames are CarRacing-v3's, so returns compare. A step draws only its
last frame, as drawing takes nine tenths of a frame's time.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.box2d.car_racing import FPS, CarRacing

MOST_FRAMES = 1000  # of an episode, as CarRacing-v3 is registered
STEERING = {"left": -1.0, "half left": -0.4, "straight": 0.0, "half right": 0.4, "right": 1.0}
PEDALS = {"gas": (1.0, 0.0), "half gas": (0.4, 0.0), "none": (0.0, 0.0), "brake": (0.0, 0.6)}  # gas, brake
ACTIONS = {
    f"{wheel}, {pedal}": np.array([steering, *feet], np.float32)
    for pedal, feet in PEDALS.items()
    for wheel, steering in STEERING.items()
}


class CarRacingEnv(CarRacing):
    """Observations are uint8 [96, 96, 3], actions the numbers of `ACTIONS`.

    Args:
        frames: for which an action is held; their rewards are added.
        arguments: of CarRacing, but for `continuous`.
    """

    def __init__(self, frames: int = 4, **arguments: Any) -> None:
        super().__init__(continuous=True, **arguments)
        self.metadata = {**self.metadata, "render_fps": FPS / frames}
        self.action_space = spaces.Discrete(len(ACTIONS))
        self._actions, self._frames = [*ACTIONS.values()], frames
        self._passed, self._draws = 0, True

    def get_action_meanings(self) -> list[str]:
        """Names of the actions."""
        return [*ACTIONS]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """See CarRacing."""
        self._passed, self._draws = 0, True
        observation, info = super().reset(seed=seed, options=options)
        return observation, info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """See the class; None, with which CarRacing resets itself, lets a frame pass."""
        if action is None:
            return super().step(None)  # type: ignore[arg-type]
        total, last = 0.0, min(self._frames, MOST_FRAMES - self._passed)
        for frame in range(1, last + 1):
            self._draws = frame == last
            _, reward, terminated, _, info = super().step(self._actions[action])
            total += float(reward)
            self._passed += 1
            if terminated:
                break
        if not self._draws:
            self._draws = True
            self.state = self._render("state_pixels")
        return self.state, total, terminated, not terminated and self._passed == MOST_FRAMES, info

    def _render(self, mode: str) -> Any:
        return super()._render(mode) if self._draws or mode != "state_pixels" else self.state
