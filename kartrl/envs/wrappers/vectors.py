"""Observations without images as float32 [D]."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim, flatten

from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.spec import leaves
from kartrl.envs.wrappers.finite import observation_fault
from kartrl.envs.wrappers.images import LARGEST_SPAN, Convert

Env = gymnasium.Env[Any, Any]
Space = gymnasium.Space[Any]
FAINT = 1 / 16  # of a declared range
BYTE = 255
LARGE = 100.0  # a number from which a network learns badly, beside its weights of about 1


def vector_converter(space: Space) -> Convert:
    """A function that converts what a space without images holds to float32 [D], bounded integers from 0 to 1."""
    size = vector_size(space)
    offsets, factors = zip(*(_scale(part) for _, part in leaves(space)), strict=True)
    offset, factor = np.concatenate(offsets), np.concatenate(factors)
    scales = bool((factor != 1).any() or offset.any())
    flattens = not isinstance(space, spaces.Box)
    if not (scales or flattens):
        return lambda observation: np.asarray(observation, np.float32).reshape(size)

    def convert(observation: Any) -> np.ndarray:
        values = flatten(space, observation) if flattens else observation
        if not scales:
            return np.asarray(values, np.float32).reshape(size)
        vector = (np.asarray(values).reshape(size) - offset) * factor
        return vector.astype(np.float32)

    return convert


class ToVector(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations without images as float32 [D]; see `vector_converter`."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._convert = vector_converter(env.observation_space)
        self.vector_spaces = {"": env.observation_space}  # by the names of parts
        self._seen: Any = None  # the newest one, as the environment returned it
        self.observation_space = spaces.Box(-np.inf, np.inf, (vector_size(env.observation_space),), np.float32)

    def observation(self, observation: Any) -> np.ndarray:
        self._seen = observation
        return self._convert(observation)

    def fault(self) -> str:
        """What is wrong with the newest observation, which is not finite in float32."""
        return observation_fault(self._seen)


def fault_of(env: Env) -> str:
    """What is wrong with an environment's newest observation, which is not finite as float32 [D]."""
    wrapper = _vector_wrapper(env)
    return "an observation that is not finite" if wrapper is None else wrapper.fault()


def _vector_wrapper(env: Env) -> ToVector | None:
    """The one of an environment's wrappers that makes vectors, if there is one."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, ToVector):
            return env
        env = env.env
    return None


def badly_scaled(
    env: Env, spec: ObservationSpec, largest: Sequence[np.ndarray]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Parts of which a network hardly sees anything, and those from whose large numbers it learns badly.

    MiniGrid declares 0 to 255 for cells that are 0 to 10, and for its one-hot ones, which are 0 or 1; places are often
    in pixels.

    Args:
        spec: of its observations.
        largest: for each part of these the absolute values that were largest, one-dimensional.

    Returns:
        A text for each image, or part of vectors, that uses little of the range by which it is scaled, such as
        "image (at most 10 of 255)", and for each that is large as the network sees it, such as "place (up to 475)".
    """
    known = env.get_wrapper_attr("vector_spaces") if env.has_wrapper_attr("vector_spaces") else {}
    faint, large = list[str](), list[str]()
    for part, most in zip(spec.parts, largest, strict=True):
        title = part.name or "observations"
        if part.is_image and 0 < most.max() < BYTE * FAINT:
            faint.append(f"{title} (at most {most.max()} of {BYTE})")
        at = 0
        for name, space in leaves(known[part.name]) if part.name in known else ():
            offset, factor = _scale(space)
            seen = most[at : at + len(factor)]
            at += len(factor)
            high = seen.max(initial=0, where=np.isfinite(seen))
            if not offset.any() and (factor < 1).all() and 0 < high < FAINT:
                faint.append(f"{name or title} (at most {float((seen / factor).max()):g} of {1 / factor.min():g})")
            elif high > LARGE:
                large.append(f"{name or title} (up to {high:.3g})")
    return tuple(faint), tuple(large)


def vector_size(space: Space) -> int:
    """D of a space without images."""
    return sum(int(flatdim(part)) for _, part in leaves(space))


def _scale(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Offset to subtract from each number and factor to multiply it by then, float64 [D] each.

    Bounded integers, such as bytes of memory, are scaled to 0 to 1; floats, whose bounds are often never reached, are
    not scaled.
    """
    size = int(flatdim(space))
    offset, factor = np.zeros(size), np.ones(size)
    if isinstance(space, spaces.Box) and space.dtype.kind in "iu":
        low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
        known = (high > low) & (high - low <= LARGEST_SPAN)
        offset[known], factor[known] = low[known], 1 / (high - low)[known]
    return offset, factor
