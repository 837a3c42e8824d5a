"""Joins the newest frames of an environment to the one image that the network reads, and splits it again."""

from collections.abc import Callable, Iterable

import cv2
import numpy as np

MOST_MERGED = 128  # channels of an OpenCV image (CV_CN_MAX)


def concatenated(frames: Iterable[np.ndarray]) -> np.ndarray:
    """Images uint8 [H, W] or [H, W, C] as one, [H, W, their number * C], the last one's channels last."""
    images = list(frames)
    if len(images) * images[0][0, 0].size > MOST_MERGED:
        return np.dstack(images)
    return np.asarray(cv2.merge(images), np.uint8)  # OpenCV interleaves pixels in a sixth of NumPy's time


def joined_frames(frames: np.ndarray) -> np.ndarray:
    """Frames uint8 [..., S, H, W, C] as images [..., H, W, S * C], the last frame's channels last."""
    *leading, number, height, width, channels = frames.shape
    if number == 1:
        return frames[..., 0, :, :, :]
    shape = (*leading, height, width, number * channels)
    if number * channels > MOST_MERGED:
        return np.moveaxis(frames, -4, -2).reshape(shape)
    return _merged(shape, frames.dtype, lambda index: list(frames[index]))


def stacked_frames(frames: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """`joined_frames(frames[numbers])` without that copy, for frames uint8 [n, H, W, C] and numbers int [..., S].

    With S = 1 the frames may have any shape.
    """
    *leading, number = numbers.shape
    if number == 1:
        return frames[numbers[..., 0]]
    _, height, width, channels = frames.shape
    if number * channels > MOST_MERGED:
        return joined_frames(frames[numbers])
    shape = (*leading, height, width, number * channels)
    return _merged(shape, frames.dtype, lambda index: [frames[each] for each in numbers[index].tolist()])


def _merged(
    shape: tuple[int, ...], dtype: np.dtype, stack: Callable[[tuple[int, ...]], list[np.ndarray]]
) -> np.ndarray:
    """Images of this shape, [..., H, W, S * C], each from its frames, `stack(index)`."""
    images = np.empty(shape, dtype)
    for index in np.ndindex(*shape[:-3]):  # OpenCV interleaves pixels in a sixth of NumPy's time
        cv2.merge(stack(index), images[index])
    return images


def split_frames(images: np.ndarray, number: int) -> np.ndarray:
    """The inverse of `joined_frames`: images uint8 [..., H, W, S * C] as frames [..., S, H, W, C], contiguous."""
    *leading, height, width, channels = images.shape
    each = channels // number
    if channels > MOST_MERGED:
        return np.ascontiguousarray(np.moveaxis(images.reshape(*leading, height, width, number, each), -2, -4))
    frames = np.empty((*leading, number, height, width, each), images.dtype)
    pairs = [channel for channel in range(channels) for _ in range(2)]  # from, to
    for index in np.ndindex(*leading):
        if each == 1:
            cv2.split(images[index], list(frames[index]))
        else:
            cv2.mixChannels([images[index]], list(frames[index]), pairs)
    return frames
