"""Environments with spaces of every kind, for the tests: `spaces_zoo:ChannelsFirst-v0` and others."""

import itertools
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

UNBOUNDED = {"low": -np.inf, "high": np.inf, "dtype": np.float32}


class Show(gymnasium.Env):
    """Shows samples of its space, and remembers the last, `shown`, and the actions that it was given, `taken`.

    Args:
        observations: the space of its observations.
        actions: the space of its actions.
        broken_after: steps after which observations hold a number that is not finite; 0: never.
    """

    def __init__(
        self,
        observations: spaces.Space,
        actions: spaces.Space,
        broken_after: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space, self.action_space, self.render_mode = observations, actions, render_mode
        self.broken_after = broken_after
        self.taken: list[Any] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.taken = []
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action):
        self.taken.append(action)
        self.shown = self.observation_space.sample()
        if len(self.taken) == self.broken_after:
            self.shown[0] = np.nan
        return self.shown, 1.0, False, False, {}


class Blind(Show):
    """Says that it can be rendered, and cannot."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's own type

    def step(self, action):
        return *super().step(action)[:2], len(self.taken) == 20, False, {}


class Single(Blind):
    """A process can open only one of these at a time."""

    there_is_one = False

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        if Single.there_is_one:
            raise RuntimeError("there is one already")
        Single.there_is_one = True

    def close(self):
        Single.there_is_one = False


def in_pixels(env: gymnasium.Env) -> gymnasium.Env:
    """Its numbers as places on a canvas of 512 pixels."""
    space = box(0, 512, env.observation_space.shape, np.float32)
    return gymnasium.wrappers.TransformObservation(env, lambda seen: np.float32(256 + 50 * seen), space)


def timed(env: gymnasium.Env) -> gymnasium.Env:
    """Each step costs 6 or 7, in turn."""
    costs = itertools.cycle((-6.0, -7.0))
    return gymnasium.wrappers.TransformReward(env, lambda _: next(costs))


class Cells(gymnasium.ObservationWrapper):
    """Gives an image cells of 0 to 10, as MiniGrid does, whose space says 0 to 255 too."""

    def observation(self, observation):
        return {**observation, "image": observation["image"] % 11}


def cells_and_counts(env: gymnasium.Env) -> gymnasium.Env:
    """A grid that is large enough for an image, whose cells are 0 to 10, and two numbers of them."""
    parts = {"cells": env.observation_space, "counts": box(0, 255, (2,), np.uint8), "bright": env.observation_space}

    def split(image: np.ndarray) -> dict[str, np.ndarray]:
        return {"cells": image % 11, "counts": image[0, :2, 0] % 11, "bright": image}

    return gymnasium.wrappers.TransformObservation(env, split, spaces.Dict(parts))


def box(low: float, high: float, shape: tuple[int, ...], dtype: Any) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


IMAGES = {
    "ChannelsFirst": box(0, 255, (4, 84, 84), np.uint8),
    "ColourFirst": box(0, 255, (3, 60, 40), np.uint8),
    "ManyFirst": box(0, 255, (16, 84, 84), np.uint8),
    "OddFirst": box(0, 255, (7, 90, 60), np.uint8),
    "DeepFirst": box(0, 255, (70, 32, 32), np.uint8),
    "ChannelsLast": box(0, 255, (60, 40, 3), np.uint8),
    "ManyLast": box(0, 255, (84, 84, 12), np.uint8),
    "Screen": box(0, 255, (240, 256, 3), np.uint8),
    "Strip": box(0, 255, (20, 400), np.uint8),
    "Cube": box(0, 255, (20, 20, 20), np.uint8),
    "Grey": box(0, 255, (60, 40), np.uint8),
    "Unit": box(0, 1, (60, 40, 3), np.float32),
    "UnitFirst": box(0, 1, (3, 60, 60), np.float64),
    "UnitGrey": box(0, 1, (60, 40), np.float32),
    "FloatBytes": box(0, 255, (60, 40, 3), np.float32),
    "Signed": box(-1, 1, (60, 40, 3), np.float32),
    "Cells": box(0, 9, (20, 20, 3), np.int64),
    "Binary": box(0, 1, (20, 24, 2), np.uint8),
    "Uneven": spaces.Box(np.zeros((20, 24, 2)), np.tile([1.0, 20.0], (20, 24, 1)), dtype=np.float64),
    "Flags": box(0, 1, (20, 24, 2), bool),
    "Below255": box(0, 254, (60, 40, 3), np.uint8),
}
VECTORS = {
    "Memory": box(0, 255, (128,), np.uint8),
    "Percent": box(0, 100, (3,), np.int64),
    "Counts": box(0, 2**31 - 1, (3,), np.int32),
    "Bounded": box(-50, 50, (4,), np.float64),
    "Unbounded": spaces.Box(shape=(5,), **UNBOUNDED),
    "Scalar": spaces.Box(shape=(), **UNBOUNDED),
    "Table": box(-1, 1, (5, 5), np.float32),
    "Window": spaces.Box(shape=(60, 40), **UNBOUNDED),
    "Board": box(0, 2, (3, 3, 2), np.uint8),
    "Symbols": box(0, 15, (21, 79), np.uint8),
    "One": spaces.Discrete(7),
    "From": spaces.Discrete(5, start=-2),
    "Several": spaces.MultiDiscrete([2, 3, 4]),
    "Switches": spaces.MultiBinary(6),
    "Pair": spaces.Tuple((spaces.Discrete(3), box(-9, 9, (2,), np.float32))),
    "Mission": spaces.Dict(
        {"direction": spaces.Discrete(4), "image": box(0, 255, (7, 7, 3), np.uint8), "mission": spaces.Text(5)}
    ),
    "Parts": spaces.Dict(
        {
            "position": box(-9, 9, (2,), np.float32),
            "memory": box(0, 255, (4,), np.uint8),
            "inner": spaces.Dict({"flags": spaces.MultiBinary(2), "kind": spaces.Discrete(3, start=1)}),
        }
    ),
}
REFUSED = {
    "Cuboid": box(0, 255, (20, 24, 16), np.uint8),
    "Film": box(0, 255, (4, 84, 84, 3), np.uint8),
    "FloatFilm": box(0, 1, (4, 84, 84, 3), np.float32),
    "Endless": spaces.Box(shape=(60, 40, 3), **UNBOUNDED),
    "WholeImage": box(0, 2**31 - 1, (60, 40, 3), np.int32),
    "LargestFloat": box(-3e38, 3e38, (60, 40, 3), np.float32),
    "Words": spaces.Text(5),
    "Series": spaces.Tuple((spaces.Discrete(2), spaces.Sequence(spaces.Discrete(3)))),
    "Huge": spaces.Discrete(10**6),
    "Empty": box(0, 1, (0,), np.float32),
}
ACTIONS = {
    "Plain": spaces.Discrete(3),
    "Shifted": spaces.Discrete(3, start=5),
    "Steer": spaces.Box(np.array([-1.0, 0]), np.array([1, 0.1]), dtype=np.float64),
    "Two": spaces.MultiDiscrete([[2, 3], [4, 2]], dtype=np.uint8, start=[[0, 1], [5, 0]]),
    "Bits": spaces.MultiBinary((2, 2)),
    "Both": spaces.Tuple((spaces.Discrete(2, start=-1), box(0, 4, (1,), np.float32))),
    "Nested": spaces.Dict(
        {
            "keys": spaces.MultiBinary(2),
            "arm": spaces.Dict({"grip": spaces.Discrete(3), "move": box(-2, 2, (2, 1), np.float64)}),
            "empty": box(0, 1, (0,), np.float32),
            "pair": spaces.Tuple((spaces.Discrete(2), spaces.MultiDiscrete([3, 2]))),
        }
    ),
    "Alone": spaces.Tuple((spaces.Dict({"gear": spaces.Discrete(3, start=1)}), box(0, 1, (0,), np.float32))),
    "AloneInArray": spaces.Dict({"gear": spaces.MultiDiscrete([4])}),
    "Free": spaces.Box(shape=(2,), **UNBOUNDED),
    "Half": spaces.Box(0, np.inf, (2,), np.float32),
    "Largest": box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (2,), np.float32),
    "Loose": spaces.Dict(
        {
            "gear": spaces.Discrete(2),
            "pull": spaces.Box(np.array([-np.inf, 3.0]), np.array([1.0, 4.0]), dtype=np.float64),
        }
    ),
    "Square": box(0, 1, (2, 2), np.float32),
    "Whole": box(0, 5, (2,), np.int64),
    "Speech": spaces.Dict({"move": spaces.Discrete(2), "say": spaces.Text(3)}),
    "Nothing": spaces.Tuple(()),
    "Millions": spaces.MultiDiscrete([1000] * 200),
    "Fixed": spaces.Box(np.array([0, 1.0]), np.array([1, 1.0]), dtype=np.float64),
}

for name, space in {**IMAGES, **VECTORS, **REFUSED}.items():
    gymnasium.register(f"{name}-v0", Show, kwargs={"observations": space, "actions": spaces.Discrete(2)})
for name, space in ACTIONS.items():
    seen = box(-1, 1, (3,), np.float32)
    gymnasium.register(f"{name}-v0", Show, kwargs={"observations": seen, "actions": space})
gymnasium.register(
    "BrokenUnit-v0",
    Show,
    kwargs={"observations": IMAGES["Unit"], "actions": spaces.Discrete(2), "broken_after": 3},
)
gymnasium.register("Blind-v0", Blind, kwargs={"observations": VECTORS["Bounded"], "actions": ACTIONS["Plain"]})
gymnasium.register("Single-v0", Single, kwargs={"observations": VECTORS["Bounded"], "actions": ACTIONS["Plain"]})
gymnasium.register("PongMemory-v0", "ale_py.env:AtariEnv", kwargs={"game": "pong", "obs_type": "ram", "frameskip": 4})
