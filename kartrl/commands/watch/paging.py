"""The page of `kartrl watch --web`."""

import contextlib
import queue
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from kartrl.commands.shared.policy import Driving, find_policy, fitting
from kartrl.errors import UserError
from kartrl.metrics import tables
from kartrl.run.folders import find_checkpoint, find_runs, find_training, names_policy
from kartrl.run.run_folder import is_training
from kartrl.web.choices import Choice, Choices
from kartrl.web.server import PageServer
from kartrl.web.session import IDLE_SECONDS, Session


def page(
    names: Sequence[str],
    driving: Driving,
    host: str,
    port: int,
    seconds: float,
    console: Console,
    training: bool = False,
) -> None:
    """Serve a page that shows policies, until Ctrl-C; nothing is loaded before somebody opens it.

    Args:
        names: checkpoint files, and names or folders of runs, to choose from. None: what `watch` shows, which is looked
            up when somebody opens the page: a run may have begun by then.
        host: the interface to listen on.
        port: 0: any that is free.
        training: wait for a run in training, if none is named.

    The others are as in `watch`.

    Raises:
        UserError: a policy, a level or the device is missing, the environment does not render, or the port is taken.
    """
    say = partial(tables.say, console)
    named = [one for name in names for one in _sources(name)]
    unlimited = driving._replace(max_steps=None)
    with contextlib.closing(PageServer(host, port)) as server:
        say(f"Watch at {server.address} (Ctrl-C ends)")
        while not server.viewers:
            _wait(server, "loading ...")
        while training and find_training(fitting(bool(driving.levels))) is None:
            _wait(server, "waiting for a run to begin ...")
        source, path = named[0] if named else _default(bool(driving.levels), console)
        choices = Choices([one for one, _ in named] or [source], source, path)
        last, note = None, ""
        while True:
            first = _first_checkpoint(choices, server)
            server.tell("loading the policy ...")
            try:
                with unlimited.opened(first, console, render=True) as driver:
                    session = Session(
                        server, driver, first, choices, greedy=driving.greedy, seconds=seconds, say=say, note=note
                    )
                    last, note = choices.chosen, ""
                    wanted = session.run()
            except UserError as error:
                if last is None:
                    raise
                gone = last.path is not None and not last.path.exists()  # then the run's newest
                # back to the one before, which could be shown
                wanted, last, note = Choice(last.source, None) if gone else last, None, str(error)
            choices.choose(wanted)


def _first_checkpoint(choices: Choices, server: PageServer) -> Path:
    """Wait for the first checkpoint of a followed run."""
    while (path := choices.path()) is None:
        if not is_training(choices.source):
            raise UserError(f"{choices.source}: the run ended without a checkpoint")
        _wait(server, f"waiting for the first checkpoint of {choices.source.name} ...")
    return path


def _wait(server: PageServer, text: str) -> None:
    """Wait a little, and let viewers know what for."""
    server.tell(text)
    with contextlib.suppress(queue.Empty):
        server.messages.get(timeout=IDLE_SECONDS)


def _sources(name: str) -> list[tuple[Path, Path | None]]:
    """A checkpoint file twice; or the folder of each run, and its best checkpoint, None if it is followed."""
    if names_policy(name):
        path = find_checkpoint(name, "watch")
        return [(path, path)]
    runs = find_runs(name)
    return [(one, None if is_training(one) else find_checkpoint(str(one), "watch")) for one in runs]


def _default(levels: bool, console: Console) -> tuple[Path, Path | None]:
    training = find_training(fitting(levels))
    if training is not None:
        return training, None
    path = find_policy(None, levels, console, "watch")
    folder = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    return (folder if (folder / "config.cfg").is_file() else path), path
