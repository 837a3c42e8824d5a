"""Videos: MP4 files, and small GIFs for TensorBoard's Images tab."""

import io
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import cv2
import numpy as np
from PIL import Image

WIDTH = 768  # maximum width to which smaller frames are scaled up: three times the console's


class Mp4Writer:
    """Writes frames one at a time to an H.264 MP4 that browsers can play; memory use is independent of the length.

    PyAV's wheel contains the encoder and runs it in this process: no ffmpeg is needed. The file is created on exit of
    the context manager, and only without an exception.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._temporary.touch()  # FFmpeg would open it only with the first frame
        self._container = av.open(str(self._temporary), "w", format="mp4", options={"movflags": "+faststart"})
        self._stream = self._container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"crf": "26", "preset": "veryfast"}
        self.frames = 0

    def add(self, frame: np.ndarray) -> None:
        """Append a frame, uint8 [H, W, 3]; all frames have the same size."""
        if self.frames == 0:
            scale = max(1, WIDTH // frame.shape[1])  # an integer, for sharp pixels
            # H.264 in this pixel format requires even sizes
            self._stream.height, self._stream.width = (-(-size * scale // 2) * 2 for size in frame.shape[:2])
        size = (self._stream.width, self._stream.height)
        large = np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_NEAREST), np.uint8)
        for packet in self._stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")):
            self._container.mux(packet)
        self.frames += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                if self.frames and kind is None:
                    for packet in self._stream.encode():
                        self._container.mux(packet)
            finally:
                self._container.close()
            if kind is None:
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def gif(frames: Sequence[np.ndarray], fps: float, colours: int = 24) -> bytes:
    """Encode frames, uint8 [H, W, 3], as a looping GIF."""
    palette = Image.fromarray(np.concatenate(frames[:: max(1, len(frames) // 8)])).quantize(colours)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    file = io.BytesIO()
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0, optimize=False
    )
    return file.getvalue()


def png(image: np.ndarray) -> bytes:
    """Encode an image, uint8 [H, W, 3], as PNG."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", optimize=True)
    return file.getvalue()


def shrunk(image: np.ndarray, width: int) -> np.ndarray:
    """Scale an image, uint8 [H, W, 3], to this width."""
    height = round(image.shape[0] * width / image.shape[1])
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
