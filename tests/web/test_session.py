"""What viewers ask of `kartrl watch --web`, and what the page is sent, without a browser."""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commands import wait_for
from policies import CARTPOLE, save_policy
from rich.console import Console
from websockets.sync.client import ClientConnection, connect

from kartrl.commands.shared.policy import Driving
from kartrl.commands.watch.paging import page
from kartrl.config import dump, read
from kartrl.errors import UserError
from kartrl.run.run_folder import RunFolder

SECONDS = 30.0


class Viewer:
    """A page that is open."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def ask(self, what: str, **more: Any) -> None:
        self._connection.send(json.dumps({"do": what, **more}))

    def sees(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first state that is as wanted."""
        while True:
            message = self._connection.recv(SECONDS)
            if isinstance(message, bytes):
                self.ask("seen")
                state = json.loads(message[4 : 4 + int.from_bytes(message[:4], "big")])["state"]
                if "file" in state and wanted(state):
                    return dict(state)

    def chooses(self, name: str) -> dict[str, Any]:
        """The state in which the policy of this name drives."""
        self.ask("policy", value=name)
        return self.sees(lambda state: state["file"] == name)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with two checkpoints."""
    folder = tmp_path / "run"
    for agent_steps in (1000, 2500):
        save_policy(folder, CARTPOLE, agent_steps)
    (folder / "config.cfg").write_text(dump(read(overrides=CARTPOLE)))
    return folder


@contextlib.contextmanager
def watched(run: Path) -> Iterator[Viewer]:
    """Context manager: a viewer of a page where a run can be chosen, or a damaged file; with neither left it ends."""
    spoiled, told = run.parent / "spoiled.pt", io.StringIO()
    spoiled.write_bytes(b"spoiled")
    with ThreadPoolExecutor(1) as pool:
        names = [str(run), str(spoiled)]
        ended = pool.submit(page, names, Driving(), "127.0.0.1", 0, 0.0, Console(file=told, width=200))
        wait_for(lambda: "http" in told.getvalue(), SECONDS, "the address")
        (address,) = re.findall(r"http://\S+", told.getvalue())
        with connect(f"{address.replace('http', 'ws')}live", origin=address.rstrip("/"), max_size=None) as connection:
            viewer = Viewer(connection)
            try:
                yield viewer
            finally:
                for file in (run / "checkpoints").iterdir():
                    file.unlink()
                viewer.ask("policy", value="spoiled.pt")
            with pytest.raises(UserError, match="without a checkpoint"):
                ended.result(SECONDS)


def test_show_outlives_the_checkpoints_it_has_shown(run: Path) -> None:
    first, second = (run / "checkpoints" / f"{steps:010}.pt" for steps in (1000, 2500))
    with watched(run) as viewer:
        viewer.chooses("run: 1000")
        first.unlink()  # as training does after a while
        viewer.ask("explain", value=True)
        state = viewer.sees(lambda state: bool(state["note"]))
        assert (str(first) in state["note"], state["explain"]) == (True, False)
        second.unlink()
        viewer.ask("policy", value="run: 2500")
        state = viewer.sees(lambda state: str(second) in state["note"])
        assert state["policy"] == "1,000 agent steps"
        save_policy(run, CARTPOLE, 4000)
        viewer.ask("policy", value="spoiled.pt")
        state = viewer.sees(lambda state: "spoiled.pt" in state["note"])
        assert state["policy"] == "4,000 agent steps", "the newest, as the one before is gone"


def test_followed_run_is_followed_after_a_failed_choice(run: Path) -> None:
    held = RunFolder(run)
    with watched(run) as viewer, contextlib.ExitStack() as stack:
        stack.callback(held.release)
        viewer.sees(lambda state: state["file"] == "run: newest")
        (run / "checkpoints" / "0000001000.pt").write_bytes(b"spoiled")
        viewer.ask("policy", value="run: 1000")
        viewer.sees(lambda state: bool(state["note"]) and state["file"] == "run: newest")
        save_policy(run, CARTPOLE, 4000)
        viewer.ask("next")
        viewer.sees(lambda state: state["policy"] == "4,000 agent steps")
