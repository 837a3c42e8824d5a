"""What TensorBoard's page shows: its own server, as `tensorboard --logdir` starts it, asked as the page asks it."""

import contextlib
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from commands import wait_for

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")  # of the server, as it says itself
HPARAMS = {
    "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"],
    "colParams": [{"hparam": "optimizer.learning_rate", "includeInResult": True}],
    "startIndex": 0,
    "sliceSize": 100,
}


class Page:
    """Answers of the server at an address; None before it has read what is asked for."""

    def __init__(self, address: str) -> None:
        self.address = address

    def fetch(self, route: str, body: bytes | None = None, **query: str) -> Any:
        url = f"{self.address}data/plugin/{route}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, body, {"X-XSRF-Protected": "1", "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except OSError:
            return None

    def scalars(self, run: str, tag: str) -> list[tuple[int, float]] | None:
        """Steps and values of a curve."""
        found = self.fetch("scalars/scalars", run=run, tag=tag)
        return None if found is None else [(step, value) for _, step, value in found]

    def images(self, run: str, tag: str) -> list[int] | None:
        """Steps of the images."""
        found = self.fetch("images/images", run=run, tag=tag, sample="0")
        return None if found is None else [image["step"] for image in found]

    def learning_rates(self) -> list[float]:
        """`optimizer.learning_rate` of each group of runs in the HParams tab."""
        found = self.fetch("hparams/session_groups", json.dumps(HPARAMS).encode()) or {}
        return [group["hparams"]["optimizer.learning_rate"] for group in found.get("sessionGroups", [])]


@contextlib.contextmanager
def tensorboard(logs: Path, told: Path) -> Iterator[Page]:
    """Context manager: the page of the runs in `logs`; the server's output is in the file `told`."""
    place = ["--host", "127.0.0.1", "--port", "0"]  # any that is free; it says which
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logs), "--reload_interval", "1", *place]
    with told.open("w") as output, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output) as server:
        try:
            wait_for(lambda: ADDRESS.search(told.read_text()), 100, "TensorBoard to start")
            found = ADDRESS.search(told.read_text())
            assert found is not None
            yield Page(found[0])
        finally:
            server.terminate()
