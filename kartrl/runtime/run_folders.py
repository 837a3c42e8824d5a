"""Run folders: where one run keeps its configuration, checkpoints and logs."""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from filelock import FileLock, Timeout

from kartrl.config import Config, dump, read
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.optimizers import state_shapes

HOLDER_SECONDS = 2.0  # to find out who has a folder


class RunFolder(NamedTuple):
    """A run folder that this process alone writes to, until `lock` is released."""

    path: Path
    lock: FileLock


def create(config: Config) -> RunFolder:
    """A new folder `logs/<name>` with the run's configuration in it.

    Raises:
        UserError: it exists already, another process has it, or it cannot be written to.
    """
    name = config.run.name
    path = Path(config.run.logs) / name
    try:
        if name == "auto":
            name = f"{config.environment.id.replace('/', '-')}__{config.run.seed}__{time.strftime('%Y%m%d-%H%M%S')}"
            path = _make_unused(path.with_name(name))
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        folder = lock(path)
        try:
            if (path / "config.cfg").exists():  # nobody else can make one now
                raise UserError(
                    f"{path}: this run exists already; go on with it by --resume {path}, or choose another run.name"
                )
            (path / "config.cfg").write_text(dump(config), encoding="utf-8")
        except BaseException:
            release(folder)
            raise
    except OSError as error:
        raise _unwritable(path, error) from error
    return folder


def _make_unused(path: Path) -> Path:
    """A folder made now, with this name or one like it: other runs may have begun in the same second."""
    new, number = path, 1
    while True:
        try:
            new.mkdir(parents=True)
            return new
        except FileExistsError:
            number += 1
            new = path.with_name(f"{path.name}-{number}")


def lock(path: Path) -> RunFolder:
    """Take the folder for this process, and remove what a killed one left half written there.

    Raises:
        UserError: another process has it, or it cannot be written to.
    """
    folder = RunFolder(path, FileLock(path / "run.lock"))
    try:
        folder.lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"{path}: another kartrl (process {_holder(path)}) is training in this folder") from error
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        (path / "run.pid").write_text(f"{os.getpid()}\n", encoding="utf-8")
    except OSError as error:
        release(folder)
        raise _unwritable(path, error) from error
    for left in path.rglob("*.tmp"):
        left.unlink(missing_ok=True)
    return folder


def _holder(path: Path) -> str:
    """Process id of who has the folder. It may be about to write it; one that was killed may have left its own."""
    deadline = time.monotonic() + HOLDER_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            pid = int((path / "run.pid").read_text(encoding="utf-8"))
            if psutil.pid_exists(pid):
                return str(pid)
        time.sleep(0.05)
    return "unknown"


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: cannot write there ({error.strerror or error}); choose another folder with --set run.logs=FOLDER"
    )


def release(folder: RunFolder) -> None:
    """Give the folder back, leaving no lock files."""
    (folder.path / "run.pid").unlink(missing_ok=True)
    # Before the release: after it, the file may already be another's. Windows removes no open file; there it stays.
    with contextlib.suppress(PermissionError):
        (folder.path / "run.lock").unlink(missing_ok=True)
    folder.lock.release()


def find(logs: Path, name: str) -> Path:
    """The run folder that `--resume` means: `name` as a path or inside `logs`; with "" the newest run there.

    Raises:
        UserError: there is none with a checkpoint.
    """
    if name:
        for path in (Path(name), logs / name):
            if checkpoint.newest(path) is not None:
                return path
        raise UserError(f"--resume {name}: no run with a checkpoint there")
    runs = [path for path in logs.glob("*") if checkpoint.newest(path) is not None]
    if not runs:
        raise UserError(f"--resume: no run with a checkpoint in {logs}; start one with `python run.py`")
    return max(runs, key=lambda path: (path / "config.cfg").stat().st_mtime if (path / "config.cfg").exists() else 0.0)


def load_newest(path: Path) -> Checkpoint:
    """The newest checkpoint that can be read of the run, which is locked.

    It warns of newer ones that cannot, and gives them the suffix .damaged, or they would stay the newest ones.

    Raises:
        UserError: none can be read; a run is never silently begun anew.
    """
    damaged: list[Path] = []
    for file in checkpoint.newest_first(path):
        try:
            loaded = checkpoint.load(file)
        except UserError as error:
            print(f"kartrl: warning: {error}; trying the one before", file=sys.stderr)
            damaged.append(file)
            continue
        for unreadable in damaged:
            unreadable.replace(unreadable.with_suffix(".damaged"))
        return loaded
    raise UserError(f"{path}: none of its checkpoints can be read")


def resumed_config(stored: Checkpoint, files: list[str], overrides: list[str]) -> Config:
    """The stored configuration with what the command line changes.

    Raises:
        UserError: the change asks for another network, world or optimizer than the checkpoint was made for, or the
            world is in a module that the user has not named.
    """
    checkpoint.check_imports(stored.config)
    config = read(files, overrides, base=dump(stored.config))
    for name in ("model", "environment"):
        if getattr(config, name) != getattr(stored.config, name):
            raise UserError(f"--resume: section [{name}] must stay as it was; start a new run to change it")
    if set(state_shapes(config.optimizer, [torch.empty(1)])) != set(
        state_shapes(stored.config.optimizer, [torch.empty(1)])
    ):
        raise UserError(
            "--resume: [optimizer] name, and whether there is momentum, must stay as they were; start a new run to change them"
        )
    return config
