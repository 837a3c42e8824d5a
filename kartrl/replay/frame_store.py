"""Frames in memory, each once, from which stacked observations are assembled."""

import sys

import numpy as np


class FrameStore:
    """Frames [H, W, C], or vectors [D], at numbered places.

    Args:
        shape: of a frame.
        dtype: uint8 or float32.
    """

    def __init__(self, places: int, shape: tuple[int, ...], dtype: str) -> None:
        self._places = places
        self._make(shape, dtype)
        self.free_places = np.arange(places - 1, -1, -1, dtype=np.int32)  # a stack: the first `free` are free
        self.free = places

    def store(self, frames: list[np.ndarray]) -> np.ndarray:
        """Store frames and return their places, int32 [n]; there must be n free ones."""
        assert len(frames) <= self.free, "no slot is free"
        self.free -= len(frames)
        places = self.free_places[self.free : self.free + len(frames)][::-1].copy()
        for place, frame in zip(places.tolist(), frames, strict=True):
            self._write(place, frame)
        return places

    def find(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Frames [n, H, W, C], and the numbers among them, int [...], of the frames at these places, int32 [...]."""
        return self.frames, places

    def packed(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """The frames at these places, int32 [n], as stored: `content`, and whatever else `unpacked` needs."""
        return {"content": self.frames[places]}

    def unpacked(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        """Unpack the result of `packed` to frames [n, H, W, C].

        Raises:
            ValueError: the frames have another shape or dtype, or are damaged.
            KeyError: something is missing.
        """
        content = packed["content"]
        if content.shape[1:] != self.frames.shape[1:] or content.dtype != self.frames.dtype:
            raise ValueError("frames of another shape")
        return content

    def forget(self, places: np.ndarray) -> None:
        """Free these places, int32 [n]."""
        self.free_places[self.free : self.free + len(places)] = places
        self.free += len(places)

    @property
    def size(self) -> int:
        """Bytes of the stored frames."""
        return (self._places - self.free) * self.frames[0].nbytes

    def _make(self, shape: tuple[int, ...], dtype: str) -> None:
        self.frames = np.zeros((self._places, *shape), dtype)  # takes memory as it fills

    def _write(self, place: int, frame: np.ndarray) -> None:
        self.frames[place] = frame


class CompressedFrames(FrameStore):
    """Frames compressed by LZ4, each by itself; measured in docs/replay.md."""

    def _make(self, shape: tuple[int, ...], dtype: str) -> None:
        import lz4.block

        self._codec = lz4.block
        self._shape, self._dtype = shape, np.dtype(dtype)
        self.compressed = [b""] * self._places
        self._size = 0

    @property
    def size(self) -> int:
        """See `FrameStore`; includes Python's overhead per frame."""
        return self._size

    def _write(self, place: int, frame: np.ndarray) -> None:
        packed = self._codec.compress(frame.tobytes(), store_size=False)
        self.compressed[place] = packed
        self._size += sys.getsizeof(packed)

    def find(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        different, where = np.unique(places, return_inverse=True)
        frames = self._decompress([self.compressed[place] for place in different.tolist()])
        return frames, where.reshape(places.shape)

    def packed(self, places: np.ndarray) -> dict[str, np.ndarray]:
        parts = [self.compressed[place] for place in places.tolist()]
        lengths = np.array([len(part) for part in parts], np.int64)
        return {"content": np.frombuffer(b"".join(parts), np.uint8), "lengths": lengths}

    def unpacked(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        content, lengths = packed["content"], packed["lengths"]
        if content.dtype != np.uint8 or content.ndim != 1 or lengths.dtype != np.int64 or lengths.ndim != 1:
            raise ValueError("frames that are not compressed")
        if (lengths < 0).any() or (ends := np.cumsum(lengths))[-1:].sum() != len(content):
            raise ValueError("lengths of compressed frames")
        try:
            return self._decompress([part.tobytes() for part in np.split(content, ends[:-1])][: len(lengths)])
        except self._codec.LZ4BlockError as error:
            raise ValueError(f"a compressed frame: {error}") from error

    def _decompress(self, packed: list[bytes]) -> np.ndarray:
        frames = np.empty((len(packed), *self._shape), self._dtype)
        for frame, part in zip(frames, packed, strict=True):
            raw = self._codec.decompress(part, uncompressed_size=frame.nbytes)
            frame[...] = np.frombuffer(raw, self._dtype).reshape(self._shape)
        return frames

    def forget(self, places: np.ndarray) -> None:
        super().forget(places)
        for place in places.tolist():
            self._size -= sys.getsizeof(self.compressed[place])
            self.compressed[place] = b""
