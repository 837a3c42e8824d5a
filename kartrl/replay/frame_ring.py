"""The newest frames of a run, each stored once, of which stacked observations are put together again."""

import numpy as np


class FrameRing:
    """A ring of frames [H, W, C] or vectors [D]. Their numbers rise for ever; the oldest frames are overwritten.

    Observations are stacks of S frames along the last axis, the oldest first. Whether one continues the one before it
    is read from its content, so that what is put together is what was stored, whatever an environment stacks.

    Args:
        frames: that it holds.
        stack: S.
        shape: of an observation, [H, W, C * S] or, with S = 1, [D].
        dtype: uint8 or float32.
    """

    def __init__(self, frames: int, stack: int, shape: tuple[int, ...], dtype: str) -> None:
        self._stack = stack
        self._frames = np.zeros((frames, *shape[:-1], shape[-1] // stack), dtype)  # takes memory as it fills
        self.written = 0  # frames so far

    @property
    def oldest(self) -> int:
        """The number of the oldest frame that it still holds."""
        return max(0, self.written - len(self._frames))

    def store(self, observations: np.ndarray, known: np.ndarray | None) -> np.ndarray:
        """Store what is new in these observations [n, ...], which follow each other.

        Args:
            known: numbers of the first one's frames, int64 [S], where it is stored already.

        Returns:
            Numbers of their frames, int64 [n, S].
        """
        frames = self._split(observations)
        length, stack = frames.shape[:2]
        follows = (frames[1:, :-1] == frames[:-1, 1:]).reshape(length - 1, -1).all(1)
        numbers = np.empty((length, stack), np.int64)
        new: list[np.ndarray] = []

        def number_of(frame: np.ndarray) -> int:
            new.append(frame)
            return self.written + len(new) - 1

        for index in range(length):
            if index == 0 and known is not None:
                numbers[0] = known
            elif index > 0 and follows[index - 1]:
                numbers[index, :-1] = numbers[index - 1, 1:]
                numbers[index, -1] = number_of(frames[index, -1])
            else:  # an episode begins: its first stack may repeat one frame, or hold some of the episode before
                near = [*zip(frames[index - 1], numbers[index - 1], strict=True)] if index > 0 else []
                for place in range(stack):
                    frame = frames[index, place]
                    same = next((number for other, number in near if np.array_equal(frame, other)), None)
                    numbers[index, place] = number_of(frame) if same is None else same
                    near.append((frame, numbers[index, place]))
        self._append(new)
        return numbers

    def read(self, numbers: np.ndarray) -> np.ndarray:
        """The observations [a, b, ...] whose frames have these numbers, int64 [a, b, S]."""
        frames = self._frames[numbers % len(self._frames)]
        if self._stack == 1:
            return frames[:, :, 0]
        return np.moveaxis(frames, 2, -2).reshape(*frames.shape[:2], *frames.shape[3:-1], -1)

    def _split(self, observations: np.ndarray) -> np.ndarray:
        """Frames [n, S, ...] of observations [n, ...]."""
        if self._stack == 1:
            return observations[:, None]
        apart = observations.reshape(*observations.shape[:-1], self._stack, -1)
        return np.ascontiguousarray(np.moveaxis(apart, -2, 1))

    def _append(self, frames: list[np.ndarray]) -> None:
        for number, frame in enumerate(frames, self.written):
            self._frames[number % len(self._frames)] = frame
        self.written += len(frames)
