"""Pictures of an environment to look at: uint8 [H, W, 3], whatever image its `render` returns."""

from typing import Any

import gymnasium
import numpy as np
from PIL import Image

from kartrl.errors import UserError, remedy

CHANNELS = (1, 2, 3, 4)  # grey, grey with alpha, colour, colour with alpha
RANGES = (1, 255, 65_535)  # largest values of images whose numbers are not uint8
TOLERANCE = 0.1  # share of the range by which values may exceed it, as after resampling


class Pictures(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes `render` return uint8 [H, W, 3].

    - Shapes: [H, W], [H, W, C] or [C, H, W] with grey or colour, with or without alpha, which is dropped; of a list or
      an array of frames the last one; a PIL image.
    - Values of any dtype: by the smallest of the ranges 0 to 1, 0 to 255 (uint8 at most) and 0 to 65535 that has held
      all so far, from its negative if some were below 0. What is not finite is black or white.

    Raises:
        UserError: from `render`, if the environment's raises an exception or returns no image.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._low, self._high = 0.0, 0.0  # the extremes so far

    def render(self) -> Any:
        try:
            given = self.env.render()
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())
            raise UserError(f"the environment cannot be filmed: render() raised {reason}{remedy(error)}") from error
        image = _one_image(given)
        if image is None:
            raise UserError(
                f"the environment cannot be filmed: render() returned {_described(given)}, which is no image, such as "
                "an array of uint8 and shape [H, W, 3]"
            )
        if image.dtype != np.uint8 or self._high <= 1:
            image = self._scaled(image)
        return np.ascontiguousarray(image[..., :3] if image.shape[2] > 2 else image[..., :1].repeat(3, 2))

    def _scaled(self, image: np.ndarray) -> np.ndarray:
        """The image as uint8 by its range."""
        with np.errstate(over="ignore"):
            values = image.astype(np.float32)
        if (finite := np.isfinite(values)).any():
            self._low = min(self._low, float(values.min(where=finite, initial=0)))
            self._high = max(self._high, float(values.max(where=finite, initial=0)))
        high = _range(self._high)
        low = 0.0 if self._low >= -TOLERANCE * high else -_range(-self._low)
        values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
        return np.rint((values - low).clip(0, high - low) * (255 / (high - low))).astype(np.uint8)


def picture_of(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    """What an environment that was opened to be rendered shows, uint8 [H, W, 3]; see `Pictures`."""
    picture: Any = env.render()
    return np.asarray(picture)


def _range(most: float) -> float:
    return next((float(limit) for limit in RANGES if most <= limit * (1 + TOLERANCE)), most)


def _one_image(given: Any) -> np.ndarray | None:
    """What `render` returned as one image, [H, W, C] of numbers; None if it is none."""
    try:
        if isinstance(given, list | tuple) and given and _is_frame(given[0]):
            given = given[-1]
        image = np.asarray(given.convert("RGB") if isinstance(given, Image.Image) else given)
    except (TypeError, ValueError):  # rows of different lengths, or an array of another library on a GPU
        return None
    if image.dtype.kind not in "buif" or not image.size:
        return None
    if image.ndim == 4:
        image = image[-1]
    if image.ndim == 2:
        return image[..., None]
    if image.ndim != 3:
        return None
    if image.shape[2] in CHANNELS:
        return image
    return np.moveaxis(image, 0, 2) if image.shape[0] in CHANNELS else None


def _is_frame(part: Any) -> bool:
    """Whether the first part of a list is an image, rather than the first row of one."""
    return (
        isinstance(part, Image.Image) or np.ndim(part) > 2 or (np.ndim(part) == 2 and np.shape(part)[1] not in CHANNELS)
    )


def _described(given: Any) -> str:
    if isinstance(given, np.ndarray):
        return f"an array of {given.dtype} and shape {list(given.shape)}"
    return "None" if given is None else f"a {type(given).__name__}"
