"""What `environment.wrapper` may name: images of other kinds than those of the environment."""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation


def scaled(env: gymnasium.Env) -> gymnasium.Env:
    """Floats from 0 to 1."""
    space = spaces.Box(0, 1, env.observation_space.shape, np.float32)
    return TransformObservation(env, lambda image: image.astype(np.float32) / 255, space)


def channels_first(env: gymnasium.Env) -> gymnasium.Env:
    height, width, channels = env.observation_space.shape
    space = spaces.Box(0, 255, (channels, height, width), np.uint8)
    return TransformObservation(env, lambda image: np.moveaxis(image, 2, 0), space)


def with_mean(env: gymnasium.Env) -> gymnasium.Env:
    """Dicts of the image and its mean."""
    space = spaces.Dict({"image": env.observation_space, "mean": spaces.Box(0, 1, (1,), np.float32)})
    return TransformObservation(
        env, lambda image: {"image": image, "mean": np.array([image.mean() / 255], np.float32)}, space
    )


def cropped(env: gymnasium.Env) -> gymnasium.Env:
    height, width, channels = env.observation_space.shape
    space = spaces.Box(0, 255, (height - 10, width, channels), np.uint8)
    return TransformObservation(env, lambda image: image[10:], space)
