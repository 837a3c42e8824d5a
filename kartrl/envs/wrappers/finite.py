"""Numbers of an environment that float32 cannot hold, or that are not finite at all."""

from collections.abc import Iterator
from typing import Any, SupportsFloat

import numpy as np

BEYOND = "beyond the largest number of float32, 3.4e+38"
LARGEST = float(np.finfo(np.float32).max)


class NonFinite(ValueError):
    """The environment returned a number that is not finite in a part of its observation that is bytes to the rest."""


def fits(reward: SupportsFloat) -> bool:
    """Whether a reward is finite in float32."""
    return -LARGEST <= float(reward) <= LARGEST


def is_finite(observation: np.ndarray) -> bool:
    """Whether all numbers of an observation, of any dtype, are finite."""
    return observation.dtype.kind != "f" or bool(np.isfinite(observation).all())


def reward_fault(reward: SupportsFloat) -> str:
    """What is wrong with a reward that is not finite in float32."""
    number = float(reward)
    return f"a reward of {number:g}, {BEYOND}" if np.isfinite(number) else "a reward that is not finite"


def observation_fault(observation: Any) -> str:
    """What is wrong with an observation, as the environment returned it, that is not finite in float32."""
    numbers = np.concatenate([np.ravel(part).astype(np.float64) for part in _parts(observation)])
    if not np.isfinite(numbers).all():
        return "an observation that is not finite"
    return f"an observation of {numbers[abs(numbers).argmax()]:g}, {BEYOND}"


def _parts(observation: Any) -> Iterator[Any]:
    """The arrays and numbers of an observation, in any order."""
    if isinstance(observation, dict | tuple):
        for part in observation.values() if isinstance(observation, dict) else observation:
            yield from _parts(part)
    else:
        yield observation
