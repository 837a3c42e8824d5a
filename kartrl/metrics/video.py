"""Videos and pictures: MP4 for people, small GIFs for TensorBoard's Images tab, sheets of several pictures."""

import contextlib
import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import cv2
import numpy as np
from PIL import Image

from kartrl.files import whole_file

WIDTH = 768  # of a video, at most, where the pictures are smaller: three times the console's


class Mp4Writer:
    """Writes pictures into an H.264 MP4 that browsers play, one at a time, so that no long race has to fit in memory.

    PyAV brings its own encoder in its wheel, and works in this process: no ffmpeg has to be installed, and none is
    left behind as a process. The file appears under its name when the writer is
    left, and only if that was without an exception.

    Raises:
        OSError: when the writer is entered or left: the file cannot be written.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._fps = path, fps
        self.pictures = 0

    def add(self, picture: np.ndarray) -> None:
        """Append a picture, uint8 [H, W, 3]; all of a video have one size."""
        if self.pictures == 0:
            scale = max(1, WIDTH // picture.shape[1])  # a whole number keeps it crisp
            # H.264 in this pixel format wants even sizes.
            self._stream.height, self._stream.width = (-(-size * scale // 2) * 2 for size in picture.shape[:2])
        size = (self._stream.width, self._stream.height)
        large = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_NEAREST), np.uint8)
        for packet in self._stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")):
            self._container.mux(packet)
        self.pictures += 1

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(whole_file(self._path))
            temporary.touch()  # FFmpeg would open it only with the first picture
            options = {"movflags": "+faststart"}
            self._container = stack.enter_context(av.open(str(temporary), "w", format="mp4", options=options))
            self._stream = self._container.add_stream("libx264", rate=Fraction(self._fps).limit_denominator(1001))
            self._stream.pix_fmt = "yuv420p"
            self._stream.options = {"crf": "26", "preset": "veryfast"}
            stack.push(self._finish)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.pictures and kind is None:
            for packet in self._stream.encode():
                self._container.mux(packet)


def gif(pictures: Sequence[np.ndarray], fps: float, colours: int = 24) -> bytes:
    """An endless GIF of pictures, uint8 [H, W, 3], of one size."""
    palette = Image.fromarray(np.concatenate(pictures[:: max(1, len(pictures) // 8)])).quantize(colours)
    images = [Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    file = io.BytesIO()
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0, optimize=False
    )
    return file.getvalue()


def png(picture: np.ndarray) -> bytes:
    """A PNG file of a picture, uint8 [H, W, 3]."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", optimize=True)
    return file.getvalue()


def shrunk(picture: np.ndarray, width: int) -> np.ndarray:
    """A picture, uint8 [H, W, 3], scaled to this width."""
    height = round(picture.shape[0] * width / picture.shape[1])
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def contact_sheet(pictures: Sequence[np.ndarray], columns: int = 2) -> np.ndarray:
    """Equally large pictures, uint8 [H, W, 3], side by side in rows -> uint8 [rows * H, columns * W, 3]."""
    columns = min(columns, len(pictures))
    height, width, _ = pictures[0].shape
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * height, columns * width, 3), pictures[0][0, 0], np.uint8)
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = picture
    return sheet
