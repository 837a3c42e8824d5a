"""How replays divide observations into frames, of which each is stored once."""

from typing import NamedTuple

import numpy as np

from kartrl.envs.frames import split_frames, stacked_frames
from kartrl.envs.observation_spec import ObservationSpec


class ObservationFrames(NamedTuple):
    """S frames an observation, if its images are stacks of so many, the oldest first; else it is one frame itself.

    A frame of packed images is one frame of each, a row of bytes. The rest of such an observation, its vectors, is not
    part of any frame.
    """

    observation: ObservationSpec
    stack: int  # S

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a frame: [H, W, C], [D] of a vector, or [bytes]."""
        if self._packed:
            return (self.observation.image_bytes // self.stack,)
        *sides, last = self.observation.shape
        return (*sides, last // self.stack)

    @property
    def rest(self) -> int:
        """R, bytes of an observation that are in no frame."""
        return self.observation.nbytes - self.observation.image_bytes if self._packed else 0

    def split(self, observations: np.ndarray) -> np.ndarray:
        """Observations [n, ...] as frames [n, S, ...]."""
        if self.stack == 1:
            return observations[:, None]
        if not self._packed:
            return split_frames(observations, self.stack)
        each, begin = [], 0
        for image in self.observation.images:
            rows = observations[:, begin : (begin := begin + image.nbytes)]
            each.append(split_frames(rows.reshape(-1, *image.shape), self.stack).reshape(len(rows), self.stack, -1))
        return np.concatenate(each, 2)

    def join(self, frames: np.ndarray, numbers: np.ndarray, rest: np.ndarray | None) -> np.ndarray:
        """The inverse of `split`, for observations [...] of any axes.

        Args:
            frames: [n, ...].
            numbers: int [..., S], of each observation's frames.
            rest: uint8 [..., R], of each observation; None if R is 0.
        """
        if not self._packed:
            return stacked_frames(frames, numbers)
        rows = np.empty((*numbers.shape[:-1], self.observation.nbytes), np.uint8)
        begin = 0
        for height, width, channels in (image.shape for image in self.observation.images):
            size = height * width * channels
            of_one = frames[:, begin // self.stack : (begin + size) // self.stack]
            images = stacked_frames(of_one.reshape(-1, height, width, channels // self.stack), numbers)
            rows[..., begin : (begin := begin + size)] = images.reshape(*rows.shape[:-1], size)
        if rest is not None:
            rows[..., begin:] = rest
        return rows

    @property
    def _packed(self) -> bool:
        return self.observation.is_packed and self.stack > 1
