"""The folder of a run's sockets: locked while its process lives, so that a killed one's leftover is recognised."""

import contextlib
import errno
import fcntl
import os
import shutil
import sys
import tempfile
import time
from multiprocessing import util
from pathlib import Path

PREFIX = "kartrl-s-"  # short, as the path of a socket must be
RAY_FOLDER = "ray"  # inside it, of a Ray cluster started by the run
LONGEST = 107 if sys.platform == "linux" else 103  # bytes of a socket's path
OWN = len("/listener-12345678")  # of the longest name that multiprocessing gives one
RAYS = len(f"/{RAY_FOLDER}/session_2026-01-01_00-00-00_123456_1234567/sockets/plasma_store")
SHORT = "/tmp", "/var/tmp"  # for temporary files, if TMPDIR's path is too long for sockets


def make_socket_folder(names: int = OWN) -> Path:
    """Create a folder that this process keeps until it ends; first remove those of killed processes.

    Args:
        names: bytes in the names of the sockets in it.

    Raises:
        OSError: there is no folder for temporary files, it cannot be written to, or its path is too long.
    """
    places = dict.fromkeys((tempfile.gettempdir(), *SHORT))
    for place in places:
        for left in Path(place).glob(f"{PREFIX}*"):
            remove_unused(left)
    failures = []
    for place in places:
        if fits(Path(place, f"{PREFIX}12345678"), names):
            try:
                folder = _make(place)
            except OSError as error:
                failures.append(error)
            else:
                util.Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-100)
                return folder
    words = f"{tempfile.gettempdir()} has too long a path; set TMPDIR to a folder with a shorter one"
    raise next(iter(failures), OSError(errno.ENAMETOOLONG, words))


def fits(folder: Path, names: int) -> bool:
    """Whether sockets whose names take this many bytes can be in this folder."""
    return len(os.fsencode(folder)) + names <= LONGEST


def _make(place: str) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        with contextlib.suppress(FileNotFoundError):  # removed as unused before it was locked
            descriptor = _open(folder)
            with contextlib.suppress(OSError):  # a file system without locks: then no one removes it
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            folder.stat()
            return folder


def remove_unused(folder: Path, patience: float = 0.0) -> None:
    """Remove the folder unless it is another user's, or in use for more than `patience` seconds from now."""
    deadline = time.monotonic() + patience
    with contextlib.suppress(OSError):  # also where another process has just removed it
        descriptor = _open(folder)
        try:
            while os.fstat(descriptor).st_uid == os.geteuid():
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        return
                    time.sleep(0.01)
                else:
                    for file in folder.iterdir():
                        if file.is_socket():
                            file.unlink()
                        elif file.name == RAY_FOLDER:
                            shutil.rmtree(file, ignore_errors=True)
                    folder.rmdir()  # fails if anything else is in it
                    return
        finally:
            os.close(descriptor)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
