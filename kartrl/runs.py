"""Run folders: where one run keeps its configuration, checkpoints and logs."""

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from kartrl import checkpoint
from kartrl.algorithms.optimizers import state_names
from kartrl.checkpoint import Checkpoint
from kartrl.config import Config, dump, read
from kartrl.errors import UserError


class RunFolder(NamedTuple):
    """A run folder that this process alone writes to, until `lock` is released."""

    path: Path
    lock: FileLock


def create(config: Config) -> RunFolder:
    """A new folder `logs/<name>` with the run's configuration in it.

    Raises:
        UserError: it exists already, or cannot be written to.
    """
    name = config.run.name
    if name == "auto":
        name = f"{config.environment.id.replace('/', '-')}__{config.run.seed}__{time.strftime('%Y%m%d-%H%M%S')}"
    path = Path(config.run.logs) / name
    if (path / "config.cfg").exists():
        raise UserError(f"{path}: this run exists already; go on with it by --resume {path}, or choose another run.name")
    try:
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        folder = lock(path)
        (path / "config.cfg").write_text(dump(config), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path}: cannot write there ({error.strerror or error}); choose another folder with --set run.logs=FOLDER"
        ) from error
    return folder


def lock(path: Path) -> RunFolder:
    """Take the folder for this process, and remove what a killed one left half written there.

    Raises:
        UserError: another process has it.
    """
    holder = path / "run.pid"
    file_lock = FileLock(path / "run.lock")
    try:
        file_lock.acquire(timeout=0)
    except Timeout as error:
        pid = holder.read_text(encoding="utf-8").strip() if holder.exists() else "unknown"
        raise UserError(f"{path}: another kartrl (process {pid}) is training in this folder") from error
    holder.write_text(f"{os.getpid()}\n", encoding="utf-8")
    for left in path.rglob("*.tmp"):
        left.unlink(missing_ok=True)
    return RunFolder(path, file_lock)


def release(folder: RunFolder) -> None:
    """Give the folder back, leaving no lock files."""
    (folder.path / "run.pid").unlink(missing_ok=True)
    folder.lock.release()
    (folder.path / "run.lock").unlink(missing_ok=True)


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
        UserError: the change asks for another network, world or optimizer than the checkpoint was made for.
    """
    config = read(files, overrides, base=dump(stored.config))
    for name in ("model", "environment"):
        if getattr(config, name) != getattr(stored.config, name):
            raise UserError(f"--resume: section [{name}] must stay as it was; start a new run to change it")
    if state_names(config.optimizer) != state_names(stored.config.optimizer):
        raise UserError("--resume: [optimizer] name, and whether there is momentum, must stay as they were; start a new run to change them")
    return config
