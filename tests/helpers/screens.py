"""A virtual display for the tests of windows, driven by xdotool."""

import contextlib
import os
import shutil
import subprocess
import sys
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
        subprocess.run(["xdotool", *words], env={**os.environ, "DISPLAY": self.name}, check=True, timeout=20)

    def look(self) -> Image.Image:
        """What it shows."""
        return ImageGrab.grab(xdisplay=self.name)


@contextlib.contextmanager
def open_screen() -> Iterator[Screen]:
    """A display of 1280x800 on which nothing else runs."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
        pass_fds=[writer], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as stream:
        number = stream.readline().strip()
    yield Screen(f":{number}")
    server.terminate()
    server.wait(10)


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
