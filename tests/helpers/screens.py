"""A virtual display for the tests of windows, driven by xdotool."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import environment
from PIL import Image, ImageGrab

needs_screen = pytest.mark.skipif(
    shutil.which("Xvfb") is None or shutil.which("xdotool") is None,
    reason="needs a virtual display: install the packages xvfb and xdotool",
)


class Screen:
    """A virtual display."""

    def __init__(self, name: str) -> None:
        self.name = name

    def do(self, *words: str) -> None:
        """An action of xdotool."""
        subprocess.run(["xdotool", *words], env={**os.environ, "DISPLAY": self.name}, check=True, timeout=60)

    def look(self) -> Image.Image:
        """What it shows."""
        return ImageGrab.grab(xdisplay=self.name)

    def pixels(self) -> np.ndarray:
        """What it shows, uint8 [H, W, 3]."""
        return np.asarray(self.look())

    def await_changes(self, number: int, seconds: float = 100) -> None:
        """Wait until what it shows has changed so often."""
        deadline, last, left = time.monotonic() + seconds, self.pixels(), number
        while left:
            assert time.monotonic() < deadline, f"{number - left} changes of {number} in {seconds} s"
            time.sleep(0.01)
            shown = self.pixels()
            if not np.array_equal(shown, last):
                last, left = shown, left - 1

    def await_rest(self, seconds: float = 60) -> float:
        """Wait until it shows the same for a while; when that was seen first, by the monotonic clock."""
        deadline = time.monotonic() + seconds
        while True:
            shown, now = self.pixels(), time.monotonic()
            time.sleep(0.3)
            if np.array_equal(shown, self.pixels()):
                return now
            assert now < deadline, f"no rest for {seconds} s"


@contextlib.contextmanager
def open_screen() -> Iterator[Screen]:
    """A display of 1280x800 on which nothing else runs."""
    server, number = _start_server()
    # Xvfb ends where it takes the number of a display that is just closing: its socket is free before its lock is.
    for _ in range(20):
        if number:
            break
        server.wait(60)
        time.sleep(0.5)
        server, number = _start_server()
    assert number, "Xvfb does not start"
    try:
        yield Screen(f":{number}")
    finally:
        server.terminate()
        server.wait(60)


def _start_server() -> tuple["subprocess.Popen[bytes]", str]:
    """Xvfb, and the number of its display; "" where it has ended."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
        pass_fds=[writer], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as stream:
        return server, stream.readline().strip()


@contextlib.contextmanager
def on_screen(screen: Screen, folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A kartrl command on the virtual display."""
    variables = {**environment(), "DISPLAY": screen.name}
    for name in ("SDL_VIDEODRIVER", "WAYLAND_DISPLAY"):
        variables.pop(name, None)
    command = [sys.executable, "-m", "kartrl", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def colours(picture: Image.Image) -> int:
    """How many there are."""
    return len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0))
