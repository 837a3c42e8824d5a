"""Images of any kind as uint8 [height, width, C]."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.config import Crop, View
from kartrl.envs.frames import concatenated
from kartrl.envs.spec import describe
from kartrl.envs.wrappers.finite import NonFinite
from kartrl.errors import UserError

LEAST_SIDE = 16  # an array with two sides of at least this many numbers is an image, a smaller one a table
SMALLEST_SIDE, LARGEST_SIDE = 40, 96  # pixels, of an image in its own size: enough for all encoders, and few enough
LARGEST_SPAN = 65_535  # of meaningful bounds; wider ones are just the limits of the dtype
MOST_RESIZED = 4  # channels that OpenCV reduces at once
# of red, green, blue and 1: GrayscaleObservation's grey, rounded down, on which policies were trained; ALE's differs
GRAY = np.array([[0.2125, 0.7154, 0.0721, -0.5]])

Convert = Callable[[Any], np.ndarray]


def is_image(space: gymnasium.Space[Any]) -> TypeGuard[spaces.Box]:
    """Whether what a space holds is an image; docs/reference/spaces.md states the rule."""
    if not isinstance(space, spaces.Box):
        return False
    if len(space.shape) < 2 or sum(side >= LEAST_SIDE for side in space.shape) < 2:
        return False
    if len(space.shape) > 2:
        return True
    return bool((space.low == 0).all()) and any((space.high == high).all() for high in (1, 255))


def is_prepared(space: gymnasium.Space[Any]) -> bool:
    """Whether it holds images uint8 [height, width, C] already."""
    return is_image(space) and len(space.shape) == 3 and _is_bytes(space) and _channel_axis(space, "") == 2


def own_view(space: spaces.Box, crop: Crop, name: str = "") -> View:
    """A view of images of any size, which both sides of the network's input have at least and at most."""
    if len(space.shape) > 3:
        raise UserError(f"its observations are {describe(space, name)}; kartrl takes images of two or three dimensions")
    first = len(space.shape) == 3 and _channel_axis(space, name) == 0
    sides = _cropped_sides(space.shape[1:] if first else space.shape[:2], crop, name)
    scale = LARGEST_SIDE / max(sides) if max(sides) > LARGEST_SIDE else math.ceil(SMALLEST_SIDE / min(sides))
    height, width = (min(max(round(side * scale), SMALLEST_SIDE), LARGEST_SIDE) for side in sides)
    return View(frame_skip=1, frame_stack=1, height=height, width=width, grayscale=False)


def image_converter(space: spaces.Box, view: View, name: str = "") -> tuple[Convert, tuple[int, int, int]]:
    """A function that converts images of two or three dimensions to new ones, uint8 [height, width, C]; their shape.

    Args:
        name: of the part of observations that they are.

    Raises:
        UserError: such images are not supported.
    """
    to_bytes = _to_bytes(space, name)
    first = len(space.shape) == 3 and _channel_axis(space, name) == 0
    channels = 1 if len(space.shape) == 2 else space.shape[0 if first else 2]
    gray = view.grayscale and channels == 3
    size = (view.width, view.height)
    shape = (view.height, view.width, 1 if gray else channels)
    crop = (slice(None),) * first + (view.seen.rows, view.seen.columns)
    _cropped_sides(space.shape[1:] if first else space.shape[:2], view.seen, name)

    def convert(image: Any) -> np.ndarray:
        image = to_bytes(image)[crop]
        if channels > MOST_RESIZED:
            planes = image if first else np.moveaxis(image, 2, 0)
            return concatenated([_resized(plane, size) for plane in planes]).reshape(shape)
        if first:
            image = concatenated(image)
        if gray:
            image = cv2.transform(image, GRAY)
        return _resized(image, size).reshape(shape)

    return convert, shape


def _cropped_sides(sides: Sequence[int], crop: Crop, name: str) -> list[int]:
    """Height and width of what is observed of an image.

    Raises:
        UserError: nothing is.
    """
    seen = [len(range(*part.indices(side))) for part, side in zip((crop.rows, crop.columns), sides, strict=True)]
    if not all(seen):
        at = f" (at {name})" * bool(name)
        raise UserError(
            f"environment.crop: {' '.join(map(str, crop))} is outside of the image{at}, which is {sides[1]} pixels "
            f"wide and {sides[0]} high"
        )
    return seen


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A new image uint8 [H, W] or [H, W, C], of at most `MOST_RESIZED` channels, of this width and height."""
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def _to_bytes(space: spaces.Box, name: str) -> Convert:
    """A function that converts images of any dtype to uint8, scaling the bounds of each number to 0 and 255."""
    if _is_bytes(space):
        return lambda image: np.asarray(image, np.uint8)
    span = space.high.astype(np.float64) - space.low
    if not (span <= LARGEST_SPAN).all():
        raise UserError(
            f"its observations are {describe(space, name)}; kartrl takes images whose bounds give the range of their "
            f"values, such as 0 to 255 or 0 to 1, at most {LARGEST_SPAN}"
        )
    factor = np.divide(255.0, span, where=span > 0, out=np.zeros_like(span))
    low, scale = _once(space.low.astype(np.float32)), _once(factor.astype(np.float32))

    def convert(image: Any) -> np.ndarray:
        values = np.asarray(image, np.float32) - low
        values *= scale
        if not np.isfinite(values).all():
            if not np.isfinite(image).all():
                raise NonFinite("an image that is not finite" + f" (at {name})" * bool(name))
            values = np.float32((np.clip(image, space.low, space.high) - low) * scale)  # beyond float32: out of bounds
        np.rint(values, out=values)
        return values.clip(0, 255, out=values).astype(np.uint8)

    return convert


def _is_bytes(space: spaces.Box) -> bool:
    return bool(space.dtype == np.uint8 and (space.low == 0).all() and (space.high == 255).all())


def _once(values: np.ndarray) -> Any:
    """One number, if all are the same: that is faster."""
    return values.flat[0] if (values == values.flat[0]).all() else values


def _channel_axis(space: spaces.Box, name: str) -> int:
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
        f"its observations are {describe(space, name)}: are the channels of these images the first or the last axis? "
        "Reshape them with gymnasium.wrappers.TransformObservation"
    )
