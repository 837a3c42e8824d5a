"""`kartrl/CarRacing-v3`: Gymnasium's CarRacing with a choice of actions, each held for some frames.

Tracks, pictures, rewards and the limit of 1,000 frames are CarRacing-v3's, so returns compare. A step draws only its
last frame, and of the 800 polygons of grass and road only those on the screen, as drawing takes nine tenths of a
frame's time. With `environment.life_loss_ends`, the learner's episodes end where the car leaves the road: a tile that
it cuts off costs Gymnasium's driver the lap, which ends with all tiles alone.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.box2d.car_racing import FPS, GRASS_DIM, PLAYFIELD, WINDOW_H, WINDOW_W, CarRacing

MOST_FRAMES = 1000  # of an episode, as CarRacing-v3 is registered
STEERING = {"left": -1.0, "half left": -0.4, "straight": 0.0, "half right": 0.4, "right": 1.0}
PEDALS = {"gas": (1.0, 0.0), "half gas": (0.4, 0.0), "none": (0.0, 0.0), "brake": (0.0, 0.6)}  # gas, brake
ACTIONS = {
    f"{wheel}, {pedal}": np.array([steering, *feet], np.float32)
    for pedal, feet in PEDALS.items()
    for wheel, steering in STEERING.items()
}
# corners of the field and of the lighter squares of grass on it, [4, 2] and [400, 4, 2]
CORNERS = np.array([(1, 0), (0, 0), (0, 1), (1, 1)], float)
FIELD = PLAYFIELD * np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)], float)
GRASS = GRASS_DIM * (np.array([(x, y) for x in range(-20, 20, 2) for y in range(-20, 20, 2)], float)[:, None] + CORNERS)


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
        self.noop = [*ACTIONS].index("straight, none")
        self._actions, self._frames = [*ACTIONS.values()], frames
        self._passed, self._draws = 0, True
        self._departures, self._on_road = 0, True
        self._corners = GRASS  # of grass and road, [polygons, 4, 2]

    def get_action_meanings(self) -> list[str]:
        """Names of the actions."""
        return [*ACTIONS]

    def lives(self) -> int:
        """What is left of an episode's lives, 1 or more: each time that the last wheel leaves the road costs one."""
        return MOST_FRAMES - self._departures

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """See CarRacing."""
        self._passed, self._draws = 0, True
        self._departures, self._on_road = 0, True
        self._corners = GRASS
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
            assert self.car is not None
            was, self._on_road = self._on_road, any(wheel.tiles for wheel in self.car.wheels)
            self._departures += was and not self._on_road
            if terminated:
                break
        if not self._draws:
            self._draws = True
            self.state = self._render("state_pixels")
        return self.state, total, terminated, not terminated and self._passed == MOST_FRAMES, info

    def _render(self, mode: str) -> Any:
        return super()._render(mode) if self._draws or mode != "state_pixels" else self.state

    def _render_road(self, zoom: float, translation: tuple[float, float], angle: float) -> None:
        """CarRacing's, without looking at each polygon in Python."""
        if len(self._corners) != len(GRASS) + len(self.road_poly):
            self._corners = np.concatenate([GRASS, [corners for corners, _ in self.road_poly]])
        turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        points = zoom * self._corners @ turned + translation
        touches = (points.max(1) >= -1).all(1) & (points.min(1) <= (WINDOW_W + 1, WINDOW_H + 1)).all(1)
        self._draw_colored_polygon(self.surf, FIELD, self.bg_color, zoom, translation, angle, clip=False)
        for index in np.flatnonzero(touches):
            road = index - len(GRASS)
            color = self.grass_color if road < 0 else [int(part) for part in self.road_poly[road][1]]
            self._draw_colored_polygon(self.surf, self._corners[index], color, zoom, translation, angle)
