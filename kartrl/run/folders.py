"""Run folders: configuration, checkpoints and logs of a run."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from filelock import FileLock, Timeout

from kartrl.config import Config, Environment, Run, dump, read
from kartrl.errors import UserError
from kartrl.files import safe_name, write_whole
from kartrl.launch import typed
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.run.places import nearest, places_of, runs_in

TIDYING_SECONDS = 0.5  # for which another starting run may hold a folder's lock, see `tidy_killed`
HOLDER_SECONDS = 10.0  # timeout for finding the process that holds a folder


class RunFolder(NamedTuple):
    """A run folder, locked by this process until `lock` is released."""

    path: Path
    lock: FileLock


def create(config: Config, provenance: Mapping[str, str] | None = None) -> RunFolder:
    """Create the folder `logs/<name>` with the run's configuration, and above it where the run comes from.

    Raises:
        UserError: the run exists, another process has locked it, or the folder is not writable.
    """
    name = config.run.name
    path = config.run.logs_folder / name
    try:
        if name == "auto":
            name = f"{safe_name(config.environment.id)}__{config.run.seed}__{time.strftime('%Y%m%d-%H%M%S')}"
            path = _make_unused(path.with_name(name))
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        folder = lock(path)
        try:
            if (path / "config.cfg").exists():  # no race: locked
                saved = checkpoint.newest(path) is not None
                advice = f"resume it with --resume {path}" if saved else "it has no checkpoint, so remove the folder"
                raise UserError(f"{path}: this run exists; {advice}, or choose another run.name")
            write_whole(path / "config.cfg", dump(config, about=provenance).encode())
        except BaseException:
            release(folder)
            raise
    except OSError as error:
        raise _unwritable(path, error) from error
    return folder


def _make_unused(path: Path) -> Path:
    """Create a folder with this name or a numbered one: other runs may have started in the same second."""
    new, number = path, 1
    while True:
        try:
            new.mkdir(parents=True)
            return new
        except FileExistsError:
            number += 1
            new = path.with_name(f"{path.name}-{number}")


def lock(path: Path) -> RunFolder:
    """Lock the folder for this process, and remove partially written files of a killed one.

    Raises:
        UserError: another process has locked it, or the folder is not writable.
    """
    folder = RunFolder(path, FileLock(path / "run.lock"))
    try:
        folder.lock.acquire(timeout=TIDYING_SECONDS, poll_interval=0.01)
    except Timeout as error:
        raise UserError(f"{path}: another kartrl (process {_holder(path)}) is training in this folder") from error
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        (path / "run.pid").write_text(f"{os.getpid()}\n", encoding="utf-8")
    except OSError as error:
        release(folder)
        raise _unwritable(path, error) from error
    _remove_partial(path)
    return folder


def tidy_killed(logs: Path) -> None:
    """Remove what killed runs in `logs` have left: locks and partially written files."""
    for mark in logs.glob("*/run.pid"):
        folder = RunFolder(mark.parent, FileLock(mark.with_name("run.lock")))
        with contextlib.suppress(Timeout, OSError):  # it is running, or not ours to write to
            folder.lock.acquire(timeout=0)
            release(folder)


def _remove_partial(path: Path) -> None:
    for left in path.rglob("*.tmp"):
        left.unlink(missing_ok=True)


def _holder(path: Path) -> str:
    """Id of the process that holds the folder; polls, since it may not be written yet, or be a killed process's."""
    deadline = time.monotonic() + HOLDER_SECONDS
    while time.monotonic() < deadline:
        if (pid := _living_pid(path)) is not None:
            return str(pid)
        time.sleep(0.05)
    return "unknown"


def _living_pid(path: Path) -> int | None:
    """The process id that the folder names, if such a process exists."""
    with contextlib.suppress(OSError, ValueError):
        if psutil.pid_exists(pid := int((path / "run.pid").read_text(encoding="utf-8"))):
            return pid
    return None


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: cannot write ({error.strerror or error}); choose another folder with --set run.logs=FOLDER"
    )


def release(folder: RunFolder) -> None:
    """Unlock the folder, and delete the lock files and what was being written if the run ends at once."""
    with contextlib.suppress(OSError):
        _remove_partial(folder.path)
    (folder.path / "run.pid").unlink(missing_ok=True)
    # before the release: afterwards another process may have locked the file; Windows cannot delete an open file
    with contextlib.suppress(PermissionError):
        (folder.path / "run.lock").unlink(missing_ok=True)
    folder.lock.release()


def find_checkpoint(name: str, option: str = "-p", logs: Path | None = None) -> Path:
    """The checkpoint that a user names: a file, or the best (else the newest) of a run, by its folder or its name.

    Args:
        option: the option that named it, for messages.
        logs: the folder of all runs; default: `Run.logs_folder`.

    Raises:
        UserError: there is neither.
    """
    if Path(name).is_file():
        return Path(name)
    logs = logs or Run().logs_folder
    for folder in places_of(name, logs):
        if (path := _best_or_newest(folder)) is not None:
            return path
    for folder in reversed(list(places_of(name, logs))):
        if folder.is_dir():
            raise UserError(f"{option} {name}: there is no checkpoint in the folder {folder} yet")
    raise UserError(f"{option} {name}: no such checkpoint{nearest(name, logs)}")


def find_run(name: str) -> Path:
    """The folder of the run that a user names: by its folder or its name.

    Raises:
        UserError: there is none.
    """
    logs = Run().logs_folder
    for folder in places_of(name, logs):
        if (folder / "config.cfg").is_file():
            return folder
    raise UserError(f"{name}: no such run{nearest(name, logs)}")


def find_newest(fits: Callable[[Environment], bool]) -> Path | None:
    """The best checkpoint (else the newest) of the newest run in logs whose environment fits; None if there is none.

    Runs whose configuration this version cannot read are skipped.
    """
    for folder in newest_first(Run().logs_folder):
        with contextlib.suppress(UserError):
            if fits(read([folder / "config.cfg"]).environment):
                return _best_or_newest(folder)
    return None


def find_training(fits: Callable[[Environment], bool]) -> Path | None:
    """The most recently begun run in logs that is training and whose environment fits; None if there is none."""
    for folder in sorted(filter(is_training, runs_in(Run().logs_folder)), key=_begun, reverse=True):
        with contextlib.suppress(UserError):
            if fits(read([folder / "config.cfg"]).environment):
                return folder
    return None


def newest_first(logs: Path) -> list[Path]:
    """Folders of the runs in `logs` that have a checkpoint, the most recently begun first."""
    return sorted((run for run in runs_in(logs) if checkpoint.newest(run) is not None), key=_begun, reverse=True)


def _begun(run: Path) -> float:
    return (run / "config.cfg").stat().st_mtime if (run / "config.cfg").exists() else 0.0


def is_training(folder: Path) -> bool:
    """Whether a process is training in this run folder: it holds the lock, which ends with it."""
    if not (folder / "run.pid").exists():
        return False
    other = FileLock(folder / "run.lock")
    try:
        other.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:  # not ours to write to
        return _living_pid(folder) is not None
    other.release()
    return False


def _best_or_newest(folder: Path) -> Path | None:
    best = folder / "best.pt"
    return best if best.is_file() else checkpoint.newest(folder)


def find(logs: Path, name: str) -> Path:
    """The run folder to resume: `name` as a path or inside `logs`; for "" the newest run in `logs`.

    Raises:
        UserError: there is no run with a checkpoint.
    """
    if name:
        for path in places_of(name, logs):
            if checkpoint.newest(path) is not None:
                return path
        raise UserError(f"--resume {name}: no run with a checkpoint{nearest(name, logs)}")
    runs = newest_first(logs)
    if not runs:
        raise UserError(f"--resume: no run with a checkpoint in {logs}; start one with: {typed('train')}")
    return runs[0]


def load_newest(path: Path) -> Checkpoint:
    """The newest readable checkpoint of a locked run.

    Warns about newer unreadable ones and gives them the suffix .damaged, so that they are not tried again.

    Raises:
        UserError: no checkpoint can be read; a run is never restarted silently.
    """
    damaged: list[Path] = []
    for file in checkpoint.newest_first(path):
        try:
            loaded = checkpoint.load(file)
        except UserError as error:
            print(f"kartrl: warning: {error}; trying the previous one", file=sys.stderr)
            damaged.append(file)
            continue
        for unreadable in damaged:
            unreadable.replace(unreadable.with_suffix(".damaged"))
        return loaded
    raise UserError(f"{path}: none of its checkpoints can be read")
