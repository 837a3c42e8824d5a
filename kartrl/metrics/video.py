"""Videos and images: MP4 files, small GIFs for TensorBoard's Images tab, and contact sheets."""

import contextlib
import io
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import cv2
import numpy as np
from PIL import Image

from kartrl.files import whole_file
from kartrl.processes.interrupts import held

WIDTH, HEIGHT = 768, 1080  # maximum size to which smaller frames are scaled up: three times the console's width
LARGEST = 4096  # pixels of a side; larger frames are scaled down
TALLEST = 4  # times as high as wide: small pictures


class Mp4Writer:
    """Writes frames one at a time to an H.264 MP4 that browsers can play; memory use is independent of the length.

    The same frames give the same file.

    PyAV's wheel contains the encoder and runs it in this process: no ffmpeg is needed. The file is created on exit of
    the context manager, and only without an exception.

    Args:
        most_bits: per second of the film, on average; None: as many as its quality needs.

    Raises:
        OSError: when the writer is entered or left: the file cannot be written.
    """

    FORMAT, CODEC = "mp4", "libx264"
    MUXING: ClassVar = {"movflags": "+faststart"}
    # with mbtree, x264 reads memory that it has not written: the same frames would not give the same file
    ENCODING: ClassVar = {"crf": "26", "preset": "veryfast", "x264-params": "mbtree=0"}

    def __init__(self, path: Path, fps: float, most_bits: int | None = None) -> None:
        self._path, self._fps, self._most_bits = path, fps, most_bits
        self.frames = 0

    def add(self, frame: np.ndarray) -> None:
        """Append a frame, uint8 [H, W, 3], whole even if Ctrl-C comes; all are scaled to the size of the first."""
        with held():
            self._add(frame)

    def _add(self, frame: np.ndarray) -> None:
        import av  # here and below: 10 MB, which processes that only make images do without

        height, width, _ = frame.shape
        if self.frames == 0:
            scale: float = max(1, min(WIDTH // width, HEIGHT // height))  # an integer, for sharp pixels
            scale = min(scale, LARGEST / max(height, width))
            # H.264 in this pixel format requires even sizes
            self._stream.height, self._stream.width = (
                max(2, round(-(-size * scale // 2)) * 2) for size in (height, width)
            )
        size = (self._stream.width, self._stream.height)
        how = cv2.INTER_NEAREST if size[0] >= width else cv2.INTER_AREA
        large = np.asarray(cv2.resize(frame, size, interpolation=how), np.uint8)
        for packet in self._stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")):
            self._container.mux(packet)
        self.frames += 1

    def __enter__(self) -> Self:
        import av

        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(whole_file(self._path))
            temporary.touch()  # FFmpeg would open it only with the first frame
            name, options = os.path.abspath(temporary), dict(self.MUXING)
            self._container = stack.enter_context(av.open(name, "w", format=self.FORMAT, options=options))
            rate = Fraction(self._fps).limit_denominator(1001)
            stream: Any = self._container.add_stream(self.CODEC, rate=rate)
            self._stream = stream
            self._stream.pix_fmt = "yuv420p"
            self._stream.options = {
                **self.ENCODING,
                **({} if self._most_bits is None else self._limits(self._most_bits)),
            }
            stack.push(self._finish)
            self._open = stack.pop_all()
        return self

    def _limits(self, most_bits: int) -> dict[str, str]:
        # with several threads, how many bits are left for a frame depends on how far the others are
        return dict.fromkeys(("maxrate", "bufsize"), f"{most_bits}") | {"threads": "1"}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with held():
            self._open.__exit__(kind, error, trace)

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.frames and kind is None:
            for packet in self._stream.encode():
                self._container.mux(packet)


class WebmWriter(Mp4Writer):
    """As `Mp4Writer`, but a WebM of VP9, for browsers that are built without H.264."""

    FORMAT, CODEC = "webm", "libvpx-vp9"
    MUXING: ClassVar = {"fflags": "+bitexact"}  # no random numbers
    ENCODING: ClassVar = {"crf": "36", "deadline": "realtime", "cpu-used": "8", "threads": "1"}

    def _limits(self, most_bits: int) -> dict[str, str]:
        return dict.fromkeys(("b", "maxrate", "bufsize"), f"{most_bits}")


def gif(frames: Sequence[np.ndarray], fps: float, colours: int = 24) -> bytes:
    """Encode frames, uint8 [H, W, 3], as a looping GIF of the first one's size."""
    height, width, _ = frames[0].shape
    frames = [frame if frame.shape == frames[0].shape else _resized(frame, height, width) for frame in frames]
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
    """Scale an image, uint8 [H, W, 3], to this width, or less if it would be more than `TALLEST` times as high."""
    scale = min(width / image.shape[1], TALLEST * width / image.shape[0])
    return _resized(image, *(max(1, round(size * scale)) for size in image.shape[:2]))


def _resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def contact_sheet(images: Sequence[np.ndarray], columns: int = 2) -> np.ndarray:
    """Arrange equally large images, uint8 [H, W, 3], in rows -> uint8 [rows * H, columns * W, 3]."""
    columns = min(columns, len(images))
    height, width, _ = images[0].shape
    rows = -(-len(images) // columns)
    sheet = np.full((rows * height, columns * width, 3), images[0][0, 0], np.uint8)
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = image
    return sheet
