"""Frames in memory, each once, of which stacked observations are put together again."""

import numpy as np


class FrameStore:
    """Frames [H, W, C], or vectors [D], at numbered places.

    Args:
        places: how many there are.
        shape: of a frame.
        dtype: uint8 or float32.
    """

    def __init__(self, places: int, shape: tuple[int, ...], dtype: str) -> None:
        self._frames = np.zeros((places, *shape), dtype)  # takes memory as it fills
        self._free = np.arange(places - 1, -1, -1, dtype=np.int32)  # a stack: the places from 0 to `free` are free
        self.free = places

    def store(self, frames: list[np.ndarray]) -> np.ndarray:
        """Places of these frames, int32 [n]; there must be so many free ones."""
        assert len(frames) <= self.free, "no place is free"
        self.free -= len(frames)
        places = self._free[self.free : self.free + len(frames)][::-1].copy()
        for place, frame in zip(places.tolist(), frames, strict=True):
            self._frames[place] = frame
        return places

    def read(self, places: np.ndarray) -> np.ndarray:
        """The frames at these places, int32 [...]: [..., H, W, C]."""
        return self._frames[places]

    def forget(self, places: np.ndarray) -> None:
        """Give these places free, int32 [n]."""
        self._free[self.free : self.free + len(places)] = places
        self.free += len(places)
