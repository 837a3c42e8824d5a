"""Converts observations of any kind to what the network reads: uint8 images [H, W, C] or float32 vectors [D].

docs/environments.md states the rules.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, SupportsFloat

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.spaces.utils import flatdim, flatten

from kartrl.config import Environment, View
from kartrl.envs.frames import concatenated
from kartrl.envs.spec import describe, leaves
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]

IMAGE_SIDE = 16  # an array with two sides of at least this many numbers is an image, a smaller one a table
BEYOND = "beyond the largest number of float32, 3.4e+38"
LARGEST = float(np.finfo(np.float32).max)
SMALLEST_SIDE, LARGEST_SIDE = 40, 96  # pixels, of an image in its own size: enough for all encoders, and few enough
LARGEST_VECTOR = 65_536  # numbers; thousands of observations are kept in memory
LARGEST_SPAN = 65_535  # of meaningful bounds; wider ones are just the limits of the dtype
MOST_RESIZED = 4  # channels that OpenCV reduces at once
# of red, green, blue and 1: GrayscaleObservation's grey, rounded down, on which policies were trained; ALE's differs
GRAY = np.array([[0.2125, 0.7154, 0.0721, -0.5]])


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


class NonFiniteImage(ValueError):
    """The environment returned a non-finite image, which uint8 cannot represent."""


class WithoutWords(wrappers.FilterObservation):
    """Dict observations without their text parts, such as MiniGrid's mission.

    Args:
        left_out: names of these parts.
    """

    def __init__(self, env: Env, left_out: tuple[str, ...]) -> None:
        assert isinstance(env.observation_space, spaces.Dict)
        super().__init__(env, [name for name in env.observation_space if name not in left_out])
        self.left_out = left_out


def left_out(env: Env) -> tuple[str, ...]:
    """Names of the parts of the environment's observations that are not passed to the network."""
    return tuple(env.get_wrapper_attr("left_out")) if env.has_wrapper_attr("left_out") else ()


def prepare_observations(env: Env, section: Environment, usual: View | None = None) -> Env:
    """`env` with observations uint8 [height, width, C * frame_stack] or float32 [D].

    Args:
        usual: for keys of `section` that are auto; None: colours, the image's own size within bounds, and no stack.

    Raises:
        UserError: its observations cannot be converted to these.
    """
    space = env.observation_space
    if isinstance(space, spaces.Box) and _is_image(space):
        view = section.view(usual or _own_view(space))
        return stack_frames(_to_images(env, space, view), view.frame_stack)
    return _to_vectors(env)


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The newest images as one, uint8 [H, W, C * number], the newest last.

    It copies each image, as some environments return the same array in each step.

    Args:
        env: with observations uint8 [H, W, C].
        number: of images.
        zeros: whether an episode begins with black images before its first one, instead of copies of that.
    """

    def __init__(self, env: Env, number: int, zeros: bool) -> None:
        super().__init__(env)
        height, width, channels = env.observation_space.shape or ()
        self.observation_space = spaces.Box(0, 255, (height, width, channels * number), np.uint8)
        self._zeros, self._images = zeros, deque[np.ndarray](maxlen=number)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin with the first image."""
        first, info = self.env.reset(seed=seed, options=options)
        first = np.array(first)
        self._images.extend([first * 0 if self._zeros else first] * self._images.maxlen)  # type: ignore[operator]
        self._images.append(first)
        return concatenated(self._images), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Add an image."""
        image, reward, terminated, truncated, info = self.env.step(action)
        self._images.append(np.array(image))
        return concatenated(self._images), reward, terminated, truncated, info


def stack_frames(env: Env, number: int, zeros: bool = False) -> Env:
    """`FrameStack`, if there is more than one image."""
    return env if number == 1 else FrameStack(env, number, zeros)


def _is_image(space: spaces.Box) -> bool:
    if len(space.shape) < 2 or sum(side >= IMAGE_SIDE for side in space.shape) < 2:
        return False
    if len(space.shape) > 2 or space.dtype == np.uint8:
        return True
    return bool((space.low == 0).all()) and any((space.high == high).all() for high in (1, 255))


def _own_view(space: spaces.Box) -> View:
    """A view of images of any size, which both sides of the network's input have at least and at most."""
    if len(space.shape) > 3:
        raise UserError(f"its observations are {describe(space)}; kartrl takes images of two or three dimensions")
    first = len(space.shape) == 3 and _channel_axis(space) == 0
    sides = space.shape[1:] if first else space.shape[:2]
    scale = LARGEST_SIDE / max(sides) if max(sides) > LARGEST_SIDE else math.ceil(SMALLEST_SIDE / min(sides))
    height, width = (min(max(round(side * scale), SMALLEST_SIDE), LARGEST_SIDE) for side in sides)
    return View(frame_skip=1, frame_stack=1, height=height, width=width, grayscale=False)


def _to_images(env: Env, space: spaces.Box, view: View) -> Env:
    """Convert images of two or three dimensions to uint8 [height, width, C]."""
    to_bytes = _to_bytes(space)
    first = len(space.shape) == 3 and _channel_axis(space) == 0
    channels = 1 if len(space.shape) == 2 else space.shape[0 if first else 2]
    gray = view.grayscale and channels == 3
    size = (view.width, view.height)
    shape = (view.height, view.width, 1 if gray else channels)

    def convert(image: Any) -> np.ndarray:
        image = to_bytes(image)
        if channels > MOST_RESIZED:
            planes = image if first else np.moveaxis(image, 2, 0)
            return concatenated([_resized(plane, size) for plane in planes]).reshape(shape)
        if first:
            image = concatenated(image)
        if gray:
            image = cv2.transform(image, GRAY)
        return _resized(image, size).reshape(shape)

    return wrappers.TransformObservation(env, convert, spaces.Box(0, 255, shape, np.uint8))


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A new image uint8 [H, W] or [H, W, C], of at most `MOST_RESIZED` channels, of this width and height."""
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def _to_bytes(space: spaces.Box) -> Callable[[Any], np.ndarray]:
    """A function that converts images of any dtype to uint8, scaling the bounds of each number to 0 and 255."""
    if space.dtype == np.uint8 and (space.low == 0).all() and (space.high == 255).all():
        return lambda image: np.asarray(image, np.uint8)
    span = space.high.astype(np.float64) - space.low
    if not (span <= LARGEST_SPAN).all():
        raise UserError(
            f"its observations are {describe(space)}; kartrl takes images whose bounds give the range of their "
            f"values, such as 0 to 255 or 0 to 1, at most {LARGEST_SPAN}"
        )
    factor = np.divide(255.0, span, where=span > 0, out=np.zeros_like(span))
    low, scale = _once(space.low.astype(np.float32)), _once(factor.astype(np.float32))

    def convert(image: Any) -> np.ndarray:
        values = np.asarray(image, np.float32) - low
        values *= scale
        if not np.isfinite(values).all():
            if not np.isfinite(image).all():
                raise NonFiniteImage("an image that is not finite")
            values = np.float32((np.clip(image, space.low, space.high) - low) * scale)  # beyond float32: out of bounds
        np.rint(values, out=values)
        return values.clip(0, 255, out=values).astype(np.uint8)

    return convert


def _once(values: np.ndarray) -> Any:
    """One number, if all are the same: that is faster."""
    return values.flat[0] if (values == values.flat[0]).all() else values


def _channel_axis(space: spaces.Box) -> int:
    """0 or 2: the axis whose other two are equal, or, if none are, the one less than half as long as its opposite.

    Raises:
        UserError: neither holds.
    """
    first, middle, last = space.shape
    if first == middle:
        return 2  # also if all three are equal: Gymnasium's images are channels-last
    if middle == last:
        return 0
    if 2 * min(first, last) < max(first, last):
        return 0 if first < last else 2
    raise UserError(
        f"its observations are {describe(space)}: are the channels of these images the first or the last axis? "
        "Reshape them with gymnasium.wrappers.TransformObservation"
    )


def _to_vectors(env: Env) -> Env:
    """Convert anything but images to float32 [D]."""
    env = _without_words(env)
    space = env.observation_space
    for name, part in leaves(space):
        where = f" (at {name})" if name else ""
        if isinstance(part, spaces.Box) and _is_image(part):
            raise UserError(
                f"its observations contain an image, {describe(part)}{where}, among other parts; kartrl takes "
                "an image alone, or parts without images: choose with gymnasium.wrappers.FilterObservation, in "
                "a function that environment.wrapper names"
            )
        if not isinstance(part, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            raise UserError(
                f"its observations are {describe(part)}{where}; kartrl takes Box, Discrete, MultiDiscrete and "
                "MultiBinary ones, and Dict and Tuple of these"
            )
    size = sum(int(flatdim(part)) for _, part in leaves(space))
    if not 1 <= size <= LARGEST_VECTOR:
        raise UserError(
            f"its observations are {describe(space)}, a vector of {size} numbers; kartrl takes 1 to {LARGEST_VECTOR}"
        )
    return ToVector(env, size)


class ToVector(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations without images as float32 [D], bounded integers from 0 to 1.

    Args:
        size: D.
    """

    def __init__(self, env: Env, size: int) -> None:
        super().__init__(env)
        self._space, self._size = env.observation_space, size
        offsets, factors = zip(*(_scale(part) for _, part in leaves(self._space)), strict=True)
        self._offset, self._factor = np.concatenate(offsets), np.concatenate(factors)
        self._scales = bool((self._factor != 1).any() or self._offset.any())
        self._flattens = not isinstance(self._space, spaces.Box)
        self._seen: Any = None  # the newest one, as the environment returned it
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def observation(self, observation: Any) -> np.ndarray:
        """See Gymnasium."""
        self._seen = observation
        values = flatten(self._space, observation) if self._flattens else observation
        if not self._scales:
            return np.asarray(values, np.float32).reshape(self._size)
        vector = (np.asarray(values).reshape(self._size) - self._offset) * self._factor
        return vector.astype(np.float32)

    def beyond(self) -> float | None:
        """The largest number of the newest observation, if all of them are finite."""
        numbers = np.concatenate([np.ravel(part).astype(np.float64) for part in _parts(self._seen)])
        return float(numbers[abs(numbers).argmax()]) if np.isfinite(numbers).all() else None


def _parts(observation: Any) -> Iterator[Any]:
    """The arrays and numbers of an observation, in any order."""
    if isinstance(observation, dict | tuple):
        for part in observation.values() if isinstance(observation, dict) else observation:
            yield from _parts(part)
    else:
        yield observation


def fault_of(env: Env) -> str:
    """What is wrong with an environment's newest observation, which is not finite as float32 [D]."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, ToVector) and (number := env.beyond()) is not None:
            return f"an observation of {number:g}, {BEYOND}"
        env = env.env
    return "an observation that is not finite"


def _without_words(env: Env) -> Env:
    space = env.observation_space
    if not isinstance(space, spaces.Dict):
        return env
    words = tuple(name for name, part in space.items() if part.dtype is not None and part.dtype.kind == "U")
    return WithoutWords(env, words) if 0 < len(words) < len(space) else env


def _scale(space: gymnasium.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
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
