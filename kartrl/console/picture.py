"""Makes observations of a console's screen, and pictures to look at."""

from typing import cast

import cv2
import numpy as np

from kartrl.config import View
from kartrl.console.libretro import Image

GAP = 8  # columns of pixels between two pictures
cv2.setNumThreads(0)  # many agents share the cores: a thread pool in each would only add contention


class Picture:
    """Resizes and stacks what is observed of screens.

    `show` returns uint8 [height, width, C * frame_stack], the newest frame last, C = 1 (grey) or 3.
    """

    def __init__(self, view: View) -> None:
        self._channels = 1 if view.grayscale else 3
        self.shape = (view.height, view.width, self._channels * view.frame_stack)
        self.gray = view.grayscale
        """Whether screens are to be gray."""
        self._size = (view.width, view.height)
        self._stack: Image | None = None

    def clear(self) -> None:
        """Clear the frame stack at the start of an episode."""
        self._stack = None

    def show(self, seen: Image) -> Image:
        """The observation for a new screen; a new array.

        Args:
            seen: its observed part, uint8 [H, W] if `gray`, else [H, W, 3].
        """
        picture = shrink(seen, self._size).reshape(self.shape[0], self.shape[1], self._channels)
        if self._channels == self.shape[2]:
            return picture
        if self._stack is None:
            self._stack = np.tile(picture, self.shape[2] // self._channels)
        else:
            self._stack = np.concatenate((self._stack[..., self._channels :], picture), axis=2)
        return self._stack.copy()


def shrink(image: Image, size: tuple[int, int]) -> Image:
    """Resize uint8 [H, W] or [H, W, 3] to (width, height).

    When shrinking, each result pixel is the mean of four: close to `INTER_AREA`, which is five times slower for sizes
    that are not integer multiples, and with less aliasing than two pixels out of many.
    """
    width, height = size
    if image.shape[1] >= 2 * width or image.shape[0] >= 2 * height:
        twice = cv2.resize(image, (2 * width, 2 * height), interpolation=cv2.INTER_LINEAR)
        return cast(Image, cv2.resize(twice, size, interpolation=cv2.INTER_AREA))
    return cast(Image, cv2.resize(image, size, interpolation=cv2.INTER_LINEAR))


def shaped(screen: Image) -> Image:
    """A screen, uint8 [H, W, 3], with each pixel twice as wide if it is narrow, as an Atari's are."""
    height, width = screen.shape[:2]
    return screen.repeat(2, axis=1) if width < height else screen


def beside(left: Image, right: Image) -> Image:
    """Two pictures, uint8 [H, W, 3], beside each other, with a gap."""
    height = max(len(left), len(right))
    gap = np.zeros((height, GAP, 3), np.uint8)
    padded = [np.pad(image, ((0, height - len(image)), (0, 0), (0, 0))) for image in (left, right)]
    return np.concatenate([padded[0], gap, padded[1]], axis=1)
