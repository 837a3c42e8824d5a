"""Runs by their names and folders, and their checkpoints; policies outside of runs."""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kartrl.config import Config, Run, read
from kartrl.errors import UserError
from kartrl.files import safe_name
from kartrl.launch import typed
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.run import policies
from kartrl.run.places import nearest, places_of, runs_in
from kartrl.run.run_folder import (
    CHECKPOINTS,
    CONFIG,
    RunFolder,
    clear,
    has_checkpoint,
    is_training,
    is_whole,
    make_unused,
    writable,
)


def create(config: Config, provenance: Mapping[str, str] | None = None) -> RunFolder:
    """Create the folder `logs/<name>` with the run's configuration, and above it where the run comes from.

    What a run has left there that ended before its first checkpoint is removed.

    Raises:
        UserError: the run exists, another process has locked it, or the folder is not writable.
    """
    name, unnamed = config.run.name, config.run.name == "auto"
    if unnamed:
        name = f"{safe_name(config.environment.id)}__{config.run.seed}__{time.strftime('%Y%m%d-%H%M%S')}"
    path = config.run.logs_folder / name
    with writable(path):
        if unnamed:
            path = make_unused(path)
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path)
        try:
            if has_checkpoint(path):  # no race: locked
                raise UserError(f"{path}: this run exists; resume it with --resume {path}, or choose another run.name")
            if (path / CONFIG).exists():
                if not is_whole((path / CONFIG).read_bytes()):
                    raise UserError(f"{path}: its {CONFIG} is not that of a run; remove it, or choose another run.name")
                clear(path)
            (path / CHECKPOINTS).mkdir(exist_ok=True)
            folder.write(config, provenance)
            folder.is_new = True
        except BaseException:
            folder.release()
            raise
    return folder


def find_checkpoint(name: str, option: str = "-p", logs: Path | None = None) -> Path:
    """The checkpoint that a user names: a file, the best (else the newest) of a run, by its folder or its name, or the
    weights of an exported policy, in a folder or on the hub.

    Args:
        option: the option that named it, for messages.
        logs: the folder of all runs; default: `Run.logs_folder`.

    Raises:
        UserError: there is none of these, or none that can be read.
    """
    if name.startswith(policies.HUB):
        return policies.fetch(name)
    if Path(name).is_file():
        return Path(name)
    logs = logs or Run().logs_folder
    for folder in places_of(name, logs):
        if (path := _best_or_newest(folder, loudly=True)) is not None:
            return path
        if policies.is_policy(folder):
            return policies.weights_of(folder)
    for folder in reversed(list(places_of(name, logs))):
        if folder.is_dir():
            raise UserError(f"{option} {name}: there is no checkpoint in the folder {folder} yet")
    raise UserError(f"{option} {name}: no such checkpoint{nearest(name, logs)}")


def names_policy(name: str) -> bool:
    """Whether a user names a policy by itself: a checkpoint file, or an exported one in a folder or on the hub."""
    return name.startswith(policies.HUB) or Path(name).is_file() or policies.is_policy(Path(name))


def find_run(name: str, logs: Path | None = None) -> Path:
    """The folder of the run that a user names: by its folder or its name.

    Args:
        logs: the folder of all runs; default: `Run.logs_folder`.

    Raises:
        UserError: there is none.
    """
    logs = logs or Run().logs_folder
    for folder in places_of(name, logs):
        if (folder / CONFIG).is_file() or has_checkpoint(folder):
            return folder
    if names_policy(name):
        raise UserError(f"{name}: is a policy, not a run; `{typed('evaluate')} A B` compares policies")
    raise UserError(f"{name}: no such run{nearest(name, logs)}")


def find_runs(name: str) -> list[Path]:
    """The run that a user names, see `find_run`; or all of an experiment, by its folder or its name.

    Raises:
        UserError: there is none.
    """
    for folder in (Path(name), Run().logs_folder / name):
        if not (folder / CONFIG).is_file() and not has_checkpoint(folder) and (runs := runs_in(folder)):
            return runs
    return [find_run(name)]


def find_newest(fits: Callable[[Config], bool]) -> Path | None:
    """The best checkpoint (else the newest) of the newest run in logs whose configuration fits; None if there is none.

    Runs whose configuration this version cannot read are skipped.
    """
    for folder in newest_first(Run().logs_folder):
        with contextlib.suppress(UserError):
            if fits(config_of(folder)) and (path := _best_or_newest(folder)) is not None:
                return path
    return None


def find_training(fits: Callable[[Config], bool]) -> Path | None:
    """The most recently begun run in logs that is training and whose configuration fits; None if there is none."""
    for folder in sorted(filter(is_training, runs_in(Run().logs_folder)), key=_begun, reverse=True):
        with contextlib.suppress(UserError):
            if fits(config_of(folder)):
                return folder
    return None


def newest_first(logs: Path) -> list[Path]:
    """Folders of the runs in `logs` that have a checkpoint, the most recently begun first."""
    return sorted(filter(has_checkpoint, runs_in(logs)), key=_begun, reverse=True)


def config_of(folder: Path) -> Config:
    """The configuration that the run in this folder was begun with; its newest checkpoint's if that cannot be read.

    Raises:
        UserError: neither can be read.
    """
    data = b""
    with contextlib.suppress(OSError):
        data = (folder / CONFIG).read_bytes()
    newest = None if is_whole(data) else checkpoint.newest_readable(folder)
    return read([folder / CONFIG]) if newest is None else newest[1].config


def _begun(run: Path) -> float:
    return (run / CONFIG).stat().st_mtime if (run / CONFIG).exists() else 0.0


def _best_or_newest(folder: Path, loudly: bool = False) -> Path | None:
    """The best checkpoint, else the newest, that can be read; None if there is none at all.

    Args:
        loudly: print a line on stderr if another one cannot be read.
    """
    best, failure = folder / "best.pt", None
    for file in [*[best] * best.is_file(), *checkpoint.newest_first(folder)]:
        try:
            checkpoint.load(file)
        except UserError as error:
            failure = failure or error
        else:
            if failure is not None and loudly:
                print(f"kartrl: warning: {failure}; using {file}", file=sys.stderr)
            return file
    if failure is not None:
        raise failure
    return None


def find(logs: Path, name: str) -> Path:
    """The run folder to resume: `name` as a path or inside `logs`; for "" the newest run in `logs`.

    Raises:
        UserError: there is no run with a checkpoint.
    """
    if name:
        for path in places_of(name, logs):
            if has_checkpoint(path):
                return path
        raise UserError(f"--resume {name}: no run with a checkpoint{nearest(name, logs)}")
    runs = newest_first(logs)
    if not runs:
        raise UserError(f"--resume: no run with a checkpoint in {logs}; start one with: {typed('train')}")
    return runs[0]


def load_newest(path: Path) -> Checkpoint:
    """The newest readable checkpoint of a locked run, which may be its best one.

    Warns about newer unreadable ones and gives them the suffix .damaged, so that they are not tried again.

    Raises:
        UserError: no checkpoint can be read; a run is never restarted silently.
    """
    damaged: list[Path] = []
    loaded: Checkpoint | None = None
    for file in checkpoint.newest_first(path):
        try:
            loaded = checkpoint.load(file)
            break
        except UserError as error:
            print(f"kartrl: warning: {error}; trying the previous one", file=sys.stderr)
            damaged.append(file)
    if damaged or loaded is None:
        with contextlib.suppress(UserError):
            best = checkpoint.load(path / "best.pt")
            if loaded is None or best.counters.agent_steps > loaded.counters.agent_steps:
                print(f"kartrl: warning: resuming from {path / 'best.pt'}", file=sys.stderr)
                loaded = best
    if loaded is None:
        raise UserError(f"{path}: none of its checkpoints can be read")
    for unreadable in damaged:
        unreadable.replace(unreadable.with_suffix(".damaged"))
    return loaded
