"""Frames in memory, each once, of which stacked observations are put together again."""

import sys

import numpy as np


class FrameStore:
    """Frames [H, W, C], or vectors [D], at numbered places.

    Args:
        places: how many there are.
        shape: of a frame.
        dtype: uint8 or float32.
    """

    def __init__(self, places: int, shape: tuple[int, ...], dtype: str) -> None:
        self._places = places
        self._make(shape, dtype)
        self._free = np.arange(places - 1, -1, -1, dtype=np.int32)  # a stack: the places from 0 to `free` are free
        self.free = places

    def store(self, frames: list[np.ndarray]) -> np.ndarray:
        """Places of these frames, int32 [n]; there must be so many free ones."""
        assert len(frames) <= self.free, "no place is free"
        self.free -= len(frames)
        places = self._free[self.free : self.free + len(frames)][::-1].copy()
        for place, frame in zip(places.tolist(), frames, strict=True):
            self._write(place, frame)
        return places

    def read(self, places: np.ndarray) -> np.ndarray:
        """The frames at these places, int32 [...]: [..., H, W, C]."""
        return self._frames[places]

    def forget(self, places: np.ndarray) -> None:
        """Give these places free, int32 [n]."""
        self._free[self.free : self.free + len(places)] = places
        self.free += len(places)

    @property
    def size(self) -> int:
        """Bytes of the frames that it holds."""
        return (self._places - self.free) * self._frames[0].nbytes

    def _make(self, shape: tuple[int, ...], dtype: str) -> None:
        self._frames = np.zeros((self._places, *shape), dtype)  # takes memory as it fills

    def _write(self, place: int, frame: np.ndarray) -> None:
        self._frames[place] = frame


class CompressedFrames(FrameStore):
    """Frames compressed by LZ4, each by itself; measured in docs/replay.md."""

    def _make(self, shape: tuple[int, ...], dtype: str) -> None:
        import lz4.block

        self._codec = lz4.block
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._packed = [b""] * self._places
        self._size = 0

    @property
    def size(self) -> int:
        """See `FrameStore`; with what Python needs for each."""
        return self._size

    def _write(self, place: int, frame: np.ndarray) -> None:
        packed = self._codec.compress(frame.tobytes(), store_size=False)
        self._packed[place] = packed
        self._size += sys.getsizeof(packed)

    def read(self, places: np.ndarray) -> np.ndarray:
        """See `FrameStore`."""
        different, where = np.unique(places, return_inverse=True)
        frames = np.empty((len(different), *self._shape), self._dtype)
        for frame, place in zip(frames, different.tolist(), strict=True):
            raw = self._codec.decompress(self._packed[place], uncompressed_size=frame.nbytes)
            frame[...] = np.frombuffer(raw, self._dtype).reshape(self._shape)
        return frames[where.reshape(places.shape)]

    def forget(self, places: np.ndarray) -> None:
        """See `FrameStore`."""
        super().forget(places)
        for place in places.tolist():
            self._size -= sys.getsizeof(self._packed[place])
            self._packed[place] = b""
