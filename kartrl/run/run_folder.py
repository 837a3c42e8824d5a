"""A run's folder, held by the process that trains in it, which follows it if it is moved and replaces it if deleted."""

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from kartrl.config import Config, dump, read
from kartrl.errors import UserError
from kartrl.files import explained, shown, write_whole
from kartrl.learning import checkpoint

CONFIG = "config.cfg"
ENDED = "ended"  # the file that says what ended the run: its limit or rule, see `stopping`
TIDYING_SECONDS = 0.5  # for which another starting run may hold a folder's lock, see `tidy_killed`
HOLDER_SECONDS = 10.0  # timeout for finding the process that holds a folder
LONGEST_PATH = 1024  # bytes, on macOS
CHECKPOINTS, EVALUATION, REPLAY = "checkpoints", "evaluation", "replay"
WRITTEN = (  # what a run writes
    *(CONFIG, ENDED, "scalars.csv", "episodes.csv", "events.out.tfevents.*", "best.pt", f"{CHECKPOINTS}/[0-9]*.pt"),
    *(f"{EVALUATION}/events.out.tfevents.*", f"{EVALUATION}/latest.png", f"{REPLAY}/*.state", f"{REPLAY}/*.unrolls"),
)
LEARNERS = "learners.tmp"  # by which several learners meet
PARTIAL = (LEARNERS, *(f"{place}/.*.tmp" for place in (".", CHECKPOINTS, EVALUATION, REPLAY)))  # see `whole_file`


class RunFolder:
    """A run's folder, locked by this process until `release`; partially written files of a killed one are removed.

    Attributes:
        path: absolute; it changes with `follow`.
        is_new: whether the run has learned nothing yet: without a checkpoint, `release` removes what it has written.

    Raises:
        UserError: another process has locked it, or the folder is not writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.is_new = False
        self._config = b""  # of the file `CONFIG`
        self._lost = False  # deleted, and not replaced yet
        self._hold()

    def _hold(self) -> None:
        self._lock = FileLock(self.path / "run.lock")
        with writable(self.path):
            try:
                self._lock.acquire(timeout=TIDYING_SECONDS, poll_interval=0.01)
            except Timeout as error:
                where, holder = shown(self.path), _holder(self.path)
                raise UserError(f"{where}: another kartrl (process {holder}) is training in this folder") from error
            try:
                (self.path / "run.pid").write_text(f"{os.getpid()}\n", encoding="utf-8")
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)  # by which it is found again
            except OSError:
                self._lock.release()
                raise
        _remove_partial(self.path)

    def write(self, config: Config, about: Mapping[str, str] | None = None) -> None:
        """Write the run's configuration, also to a folder that replaces this one; `about`: see `dump`.

        Raises:
            OSError: the folder is not writable.
        """
        self._config = dump(config, about=about).encode()
        write_whole(self.path / CONFIG, self._config)

    def end(self, text: str) -> None:
        """Say in the folder what has ended the run, or remove that if the text is empty."""
        with contextlib.suppress(OSError):  # the run can be resumed, then
            if text:
                write_whole(self.path / ENDED, f"{text}\n".encode())
            else:
                (self.path / ENDED).unlink(missing_ok=True)

    def mend(self, config: Config, about: Mapping[str, str]) -> bool:
        """If the configuration's file is missing or damaged, write this one, and keep the other with another suffix.

        Returns:
            Whether it was.

        Raises:
            UserError: the folder is not writable.
        """
        file = self.path / CONFIG
        with contextlib.suppress(OSError):
            self._config = file.read_bytes()
        if is_whole(self._config):
            return False
        with writable(self.path):
            if file.exists():
                file.replace(file.with_suffix(".damaged"))
            self.write(config, about)
        return True

    def follow(self) -> str | None:
        """If the folder has been moved, find it; if it has been deleted, make another one, beside what is there now.

        Returns:
            A line for the user; None if the folder is where it was, or if it cannot be reached for a moment.
        """
        try:
            if _is_same(self.path, self._descriptor):
                return None
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return None
        earlier = shown(self.path)
        if (place := _place(self._descriptor)) is None:
            return self._replace(earlier)
        self.path, moved = place, place != self.path
        return f"{earlier} has been moved to {shown(place)}; training continues there" if moved else None

    def _replace(self, earlier: Path) -> str | None:
        """See `follow`; a failure is reported once."""
        path, lock, descriptor, first = self.path, self._lock, self._descriptor, not self._lost
        try:
            self.path = make_unused(path)
            (self.path / CHECKPOINTS).mkdir()
            self._hold()
            write_whole(self.path / CONFIG, self._config)
        except (OSError, UserError) as error:
            self.path, self._lock, self._descriptor, self._lost = path, lock, descriptor, True
            reason = error.strerror if isinstance(error, OSError) else error
            return f"{earlier} has been deleted, and cannot be replaced ({reason}); training continues" * first or None
        lock.release()
        os.close(descriptor)
        self._lost = False
        return f"{earlier} has been deleted; training continues in a new {shown(self.path)}"

    def release(self) -> None:
        """Unlock the folder; delete the lock files, and what was being written if the run ends at once."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)  # first: where there are too few descriptors, what follows needs one
        self._descriptor = -1
        discarded = self.is_new and not has_checkpoint(self.path)
        if discarded:
            clear(self.path)
        _unlock(self.path, self._lock)
        if discarded:
            with contextlib.suppress(OSError):  # something else is in it
                self.path.rmdir()


def has_checkpoint(folder: Path) -> bool:
    """Whether the run in this folder has saved anything."""
    return (folder / "best.pt").is_file() or checkpoint.newest(folder) is not None


def ended_by(folder: Path) -> str:
    """What has ended the run in this folder, see `RunFolder.end`; "" if it can be resumed."""
    try:
        return (folder / ENDED).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def left_behind(folder: Path) -> list[Path]:
    """Files that a run does not need: checkpoints older than its last readable one, and an ended run's replay."""
    kept = checkpoint.newest_readable(folder)
    if kept is None:
        return []
    files = [path for path in checkpoint.newest_first(folder) if int(path.stem) < int(kept[0].stem)]
    files += (folder / CHECKPOINTS).glob("[0-9]*.damaged")
    if ended_by(folder):
        files += [file for kind in ("state", "unrolls") for file in (folder / REPLAY).glob(f"*.{kind}")]
    return files


def make_unused(path: Path) -> Path:
    """Create a folder with this name or a numbered one: other runs may have started in the same second."""
    new, number = path, 1
    while True:
        try:
            new.mkdir(parents=True)
            return new
        except FileExistsError:
            number += 1
            new = path.with_name(f"{path.name}-{number}")


def clear(path: Path) -> None:
    """Remove what a run has written to its folder; what else is there stays."""
    with contextlib.suppress(OSError):
        for pattern in WRITTEN:
            for file in path.glob(pattern):
                file.unlink()
    for name in (CHECKPOINTS, EVALUATION, REPLAY):
        with contextlib.suppress(OSError):
            (path / name).rmdir()


def tidy_killed(logs: Path) -> None:
    """Remove what killed runs in `logs` have left: locks and partially written files."""
    for mark in logs.glob("*/run.pid"):
        lock = FileLock(mark.with_name("run.lock"))
        with contextlib.suppress(Timeout, OSError):  # it is running, or not ours to write to
            lock.acquire(timeout=0)
            _unlock(mark.parent, lock)


def is_whole(data: bytes) -> bool:
    """Whether this is a configuration to its last key: a file that was cut off could be read, too."""
    try:
        text = data.decode()
        read(base=text)
    except (UnicodeDecodeError, UserError):
        return False
    last = dump(Config(), comments=False).rstrip().splitlines()[-1].partition(" = ")[0]
    return text.rstrip().rpartition("\n")[2].startswith(f"{last} = ")


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


def writable(path: Path) -> contextlib.AbstractContextManager[None]:
    """Context manager: an OSError becomes a UserError that says what to do."""
    return explained(shown(path), "write", "choose another folder with --set run.logs=FOLDER")


def _unlock(path: Path, lock: FileLock) -> None:
    with contextlib.suppress(OSError):
        _remove_partial(path)
        # before the release: afterwards another process may have locked the file
        for name in ("run.pid", "run.lock"):
            (path / name).unlink(missing_ok=True)
    lock.release()


def _is_same(path: Path, descriptor: int) -> bool:
    return os.path.samestat(os.stat(path), os.fstat(descriptor))


def _place(descriptor: int) -> Path | None:
    """Where the open folder is now; None if it has been deleted."""
    try:
        if sys.platform == "darwin":
            found = os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(LONGEST_PATH)).rstrip(b"\0"))
        else:
            found = os.readlink(f"/proc/self/fd/{descriptor}")
        return Path(found) if _is_same(Path(found), descriptor) else None
    except OSError:
        return None


def _remove_partial(path: Path) -> None:
    for pattern in PARTIAL:
        for left in path.glob(pattern):
            if left.is_file():
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
