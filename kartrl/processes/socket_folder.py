"""The folder of a run's sockets: locked while its process lives, so that a killed one's leftover is recognised."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "kartrl-s-"  # short, as the path of a socket must be
RAY_FOLDER = "ray"  # inside it, of a Ray cluster started by the run


def make_socket_folder() -> Path:
    """Create a folder that this process keeps until it ends; first remove those of killed processes.

    Raises:
        OSError: there is no folder for temporary files, or it cannot be written to.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        remove_unused(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
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
