"""How processes begin, and that none outlives the server."""

import contextlib
import functools
import importlib
import multiprocessing
import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec

from setproctitle import setproctitle

from kartrl.errors import UserError, shortage
from kartrl.output import outlast_readers
from kartrl.runtime.child_process import ChildProcess, start_process
from kartrl.runtime.socket_folder import make_socket_folder

GRACE_SECONDS = 2.0  # that a process has to end by itself when its parent has gone
LAST_SECONDS = 2.0  # between the signal that it gets then and the end
Arguments = ParamSpec("Arguments")


def start_method() -> BaseContext:
    """The start method of all processes. The first call starts the fork server, which loads while torch is imported.

    Raises:
        UserError: the machine's limits do not let it start.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or NumPy keeps a thread for each core in each agent
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kartrl.runtime.fork_server"])
    # Should the tracker be killed, another one is started: it keeps track of nothing of ours.
    warnings.filterwarnings("ignore", "resource_tracker: process died unexpectedly")
    try:
        with _blocked(signal.SIGHUP):
            resource_tracker.ensure_running()  # it unblocks SIGINT at last, so that it comes first
        # A signal that ends this process comes when the fork server is there, which then removes the folder.
        with _blocked(signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.environ["KARTRL_SOCKETS"] = _socket_folder()
            forkserver.ensure_running()
    except OSError as error:
        cause = shortage(error) or f"their sockets need a folder for temporary files: {error.strerror or error}"
        raise UserError(f"cannot start processes: {cause}") from error
    return context


@functools.cache
def _socket_folder() -> str:
    """Where multiprocessing puts this process's sockets, instead of a folder of its own making."""
    folder = make_socket_folder()
    multiprocessing.current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]
    util.Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-100)
    return str(folder)


@contextlib.contextmanager
def _blocked(*signals: signal.Signals) -> Iterator[None]:
    """Hold these signals back: processes that are started meanwhile are born with them blocked."""
    received: list[int] = []  # by other threads, which do not block them
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in signals:
            if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` has it
                handlers[number] = signal.signal(number, lambda number, _: received.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in received:
            signal.raise_signal(late)


def spawn(
    context: Any,
    role: str,
    function: Callable[Arguments, None],
    /,
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> ChildProcess:
    """A process that runs a module's function, under the title "kartrl <role>" in ps and top.

    Ctrl-C reaches the whole group of processes; what follows is the server's to decide. When the server has gone, the
    process is given `GRACE_SECONDS` to end, then SIGTERM, and is ended `LAST_SECONDS` after that.

    Raises:
        RunFailed: the fork server ended meanwhile, and so did its successor.
    """
    # The function travels by its name: pickled, it would load its module before the process follows its parent.
    place = function.__module__, function.__qualname__
    return start_process(context.Process(target=_run, args=(role, place, arguments, options), name=role, daemon=True))


def _run(role: str, place: tuple[str, str], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Body of every process; see `spawn`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outlast_readers()
    setproctitle(f"kartrl {role}")
    parent = multiprocessing.parent_process()
    assert parent is not None
    module, name = place
    try:
        # A thread watches, so this works while the process loads or computes, or waits for the rest of a message that
        # its dead parent never finished writing.
        threading.Thread(target=_follow, args=(parent,), name="follow-parent", daemon=True).start()
        getattr(importlib.import_module(module), name)(*arguments, **options)
    except Exception as error:
        if (cause := shortage(error)) is None:
            raise
        raise SystemExit(f"kartrl: {role}: {cause}") from error  # multiprocessing prints it


def allow_children() -> None:
    """Let this process, which `spawn` has started, start others too; they follow it."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def yield_cores() -> None:
    """The network first: this process takes what it leaves of the cores, so that the learner never waits for one."""
    if hasattr(os, "nice"):
        os.nice(19)


def _follow(parent: BaseProcess) -> None:
    parent.join()
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(1)
