"""The processes that this one has started: whether they are alive, how they ended, and ending them in bounded time.

multiprocessing leaves all this to its fork server. While that is stopped, no process can be started and no death is
noticed; once it is killed, all its children count as dead, alive or not.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

import psutil
from setproctitle import setproctitle

from kartrl.errors import RunFailed

LOOK_SECONDS = 0.02  # between two polls of whether a process has ended
ANSWER_SECONDS = 1.0  # for a fork server that was stopped to report, at the end of a run, that a process has ended
END_SECONDS = 1.0  # for an environment's own processes to end
STATUS_SECONDS = 10.0  # for a process's exit status to become known, even on a busy machine
NO_ANSWER = 255  # the exit status that multiprocessing makes up if the fork server died first
MARK, TITLE = "KARTRL_ROLE", " environment"  # environment variable, or end of the title, of environments' processes
OURS = "kartrl"  # in the configuration of a multiprocessing process
SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # for Linux's prctl


class ChildProcess:
    """A process started by `start_process`, observed without the fork server.

    Attributes:
        pid: its process id.
        sentinel: readable when it has ended, or when the fork server was killed.
    """

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid is not None
        self._process, self.pid, self.sentinel = process, process.pid, process.sentinel
        self._status: int | None = None
        self._seen: psutil.Process | None = None
        with contextlib.suppress(psutil.NoSuchProcess):  # it has already ended
            self._seen = psutil.Process(self.pid)

    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        try:
            alive = self._seen is not None and self._seen.is_running() and self._seen.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            alive = False
        if not alive:
            self._seen = None
        return alive

    @property
    def exitcode(self) -> int | None:
        """Its exit status, or the negative number of the signal that ended it; None while it is alive, or if unknown.

        If a process outlived its fork server, it is known on Linux only.
        """
        if self.is_alive():
            return None
        if self._status is None:
            resume_fork_server()
            deadline = time.monotonic() + STATUS_SECONDS
            self._process.join(STATUS_SECONDS)
            self._status = self._process.exitcode
            if self._status in (None, NO_ANSWER):  # 255 may be the true status
                own = self._own_status(deadline)
                self._status = self._status if own is None else own
        return self._status

    def _own_status(self, deadline: float) -> int | None:
        """The status from the kernel, once the fork server has ended and this process has become the parent."""
        while psutil.pid_exists(self.pid):  # otherwise its parent is alive, and has reaped it
            with contextlib.suppress(ChildProcessError):  # it is the fork server's child, not ours
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        return None

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and all processes that it has started, such as those of its environments."""
        own = _descendants(self._seen) if self._seen is not None else []
        self._send(signal.SIGKILL)
        _kill(own)

    def _send(self, number: signal.Signals) -> None:
        if self._seen is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen.send_signal(number)

    def join(self, timeout: float) -> None:
        """Wait until it has ended, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)


def tell_exit(code: int | None) -> str:
    """How a process ended, from its `exitcode`."""
    if code is None:
        return "cause unknown"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


_marked = False


def mark_descendants(role: str) -> None:
    """Let `kill_orphans` recognise the processes that this one will start, and those that they start."""
    global _marked
    _marked = True
    os.environ[MARK] = role
    os.register_at_fork(after_in_child=lambda: setproctitle(f"kartrl {role}{TITLE}"))


def end_descendants() -> None:
    """End all processes that this one has started, and those that they have: with SIGTERM, then with SIGKILL.

    Only after `mark_descendants`.
    """
    own = _descendants(psutil.Process()) if _marked else []
    for process in own:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _kill(psutil.wait_procs(own, END_SECONDS)[1] if own else [])


def kill_orphans() -> None:
    """Kill what dead processes of this run had started: their environments' processes, say; only on Linux.

    They are now children of the process that has started the fork server; see `start_process`.
    """
    with contextlib.suppress(psutil.Error):
        heir: psutil.Process | None = psutil.Process()
        if is_fork_server_shared() and (server := psutil.Process().parent()) is not None:
            heir = server.parent()
        orphans = [process for process in heir.children() if _is_marked(process)] if heir is not None else []
        for orphan in orphans:
            _kill([*_descendants(orphan), orphan])


def _is_marked(process: psutil.Process) -> bool:
    """Whether it descends from one that has called `mark_descendants`: by its title or, if it executed a program, by
    its environment variables."""
    with contextlib.suppress(psutil.Error):
        title = " ".join(process.cmdline()).strip()
        return (title.startswith("kartrl ") and title.endswith(TITLE)) or MARK in process.environ()
    return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    if processes:
        psutil.wait_procs(processes, END_SECONDS)  # so that those that are this process's children are reaped


_started: list[ChildProcess] = []


_starting = threading.Lock()


def start_process(process: BaseProcess) -> ChildProcess:
    """Start a multiprocessing process; a fork server that has ended is replaced.

    Raises:
        RunFailed: the fork server ended while starting it, and so did its successor.
    """
    process._config[OURS] = True  # type: ignore[attr-defined]
    _prctl(SET_CHILD_SUBREAPER, 1)  # as only a parent learns how its child ended, if the fork server is killed
    resume_fork_server()
    try:
        os.getcwd()
    except FileNotFoundError:  # deleted: no process could start in it
        os.chdir("/")
    for last in (False, True):
        try:
            with _without_main():
                process.start()
            break
        except (EOFError, ConnectionError, BlockingIOError) as error:  # it ended meanwhile, or cannot be started
            if last:
                raise RunFailed(
                    f"{process.name} cannot be started: the fork server ended; too few processes may be allowed "
                    "(see ulimit -u)"
                ) from error
    _started[:] = [child for child in _started if child.is_alive()]
    _started.append(ChildProcess(process))
    return _started[-1]


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Context manager: processes started meanwhile do not import this program's script, of which they need nothing.

    multiprocessing would have them do so; a user's script that trains without `if __name__ == "__main__"` would run
    again in each, and what it imports would fill their memory.
    """
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def is_ours() -> bool:
    """Whether this process was started by `start_process`."""
    return OURS in multiprocessing.current_process()._config  # type: ignore[attr-defined]


def kill_children() -> None:
    """Kill all child processes that are left."""
    for child in _started:
        child.kill()


def end_children(seconds: float) -> None:
    """Wait `seconds` for all child processes, then kill the rest; those that do not end even then are given up."""
    deadline = time.monotonic() + seconds
    for child in _started:
        child.join(max(0.0, deadline - time.monotonic()))
    kill_children()
    for child in _started:
        child.join(ANSWER_SECONDS)
    resume_fork_server()
    for process in multiprocessing.active_children():
        process.join(ANSWER_SECONDS)
    kill_orphans()
    if multiprocessing.active_children():  # multiprocessing would wait forever for news of their end
        _send(_fork_server(), signal.SIGKILL)


def resume_fork_server() -> None:
    """Resume multiprocessing's own processes, in case they were stopped."""
    for pid in (
        os.getppid() if is_fork_server_shared() else _fork_server(),
        getattr(resource_tracker._resource_tracker, "_pid", None),
    ):
        _send(pid, signal.SIGCONT)


def fork_server_key() -> bytes | None:
    """What a process started by this one needs for `share_fork_server`."""
    key: bytes | None = getattr(forkserver._forkserver, "_forkserver_authkey", None)  # since Python 3.14
    return key


def share_fork_server(key: bytes | None) -> None:
    """Start further processes with the fork server that has started this one, instead of another.

    multiprocessing says that it does so by itself, but as of Python 3.14 it does not.

    Args:
        key: `fork_server_key` of the process that started the fork server.
    """
    server: Any = forkserver._forkserver
    server._forkserver_authkey, server.ensure_running = key, resource_tracker.ensure_running


def is_fork_server_shared() -> bool:
    """Whether `share_fork_server` has been called."""
    return "ensure_running" in vars(forkserver._forkserver)


def _fork_server() -> int | None:
    pid: int | None = getattr(forkserver._forkserver, "_forkserver_pid", None)
    return pid


def _send(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def continue_after_parent() -> None:
    """When this process's parent ends, resume this process and its children if they are stopped.

    They then notice that the parent is gone, and end too; only on Linux.
    """
    own, parent = os.getpid(), os.getppid()

    def wake_children(*_: object) -> None:
        if os.getpid() == own and os.getppid() != parent:
            for child in psutil.Process().children():
                _send(child.pid, signal.SIGCONT)

    signal.signal(signal.SIGCONT, wake_children)
    _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGCONT)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
