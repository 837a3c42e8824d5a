"""Starts processes, and ensures that none outlives the server."""

import contextlib
import functools
import gc
import importlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ParamSpec

from setproctitle import setproctitle

from kartrl import faults
from kartrl.errors import UserError, shortage
from kartrl.processes.child import (
    ChildProcess,
    end_descendants,
    is_fork_server_shared,
    mark_descendants,
    start_process,
)
from kartrl.processes.output import outlast_readers
from kartrl.processes.socket_folder import make_socket_folder

GRACE_SECONDS = 2.0  # for a process to end by itself once its parent is gone
AGENT, EVALUATOR = 10, 19  # arguments of `yield_cores`
LAST_SECONDS = 2.0  # between the SIGTERM that it gets then and its forced exit
CHANGED = "LD_LIBRARY_PATH", "PYGAME_HIDE_SUPPORT_PROMPT"  # environment variables, by OpenCV and Gymnasium on import
AGENTS = "kartrl.acting.agent"  # by name only: this room knows no agents, but all runs start some
Arguments = ParamSpec("Arguments")


def start_method(*preloaded: str) -> BaseContext:
    """The start method of all processes. The first call starts the fork server, which loads while torch is imported.

    Args:
        preloaded: modules that it loads in addition to those of agents.

    Raises:
        UserError: the machine's limits prevent it from starting.
    """
    # setproctitle writes titles before the first environment variable, and nowhere once that has been changed.
    for name in CHANGED:
        if name in os.environ:
            os.environ[name] = os.environ.pop(name)  # now it is the last
    keep_importable()
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    if is_fork_server_shared():
        return multiprocessing.get_context("forkserver")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or NumPy keeps one thread per core in each agent
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kartrl.processes.fork_server", AGENTS, *preloaded])
    # If the resource tracker is killed, another one is started; it tracks nothing of ours.
    warnings.filterwarnings("ignore", "resource_tracker: process died unexpectedly")
    try:
        with _blocked(signal.SIGHUP):
            resource_tracker.ensure_running()  # first, because it unblocks SIGINT when done
        # A signal that ends this process is delivered once the fork server runs, which then removes the folder.
        with _blocked(signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.environ["KARTRL_SOCKETS"] = _socket_folder()
            faults.reach("fork_server")
            forkserver.ensure_running()
    except OSError as error:
        cause = shortage(error) or f"their sockets need a folder for temporary files: {error.strerror or error}"
        raise UserError(f"cannot start processes: {cause}") from error
    return context


def keep_importable() -> None:
    """Let further Python processes find this kartrl, even in a folder that contains a checkout with its name.

    Python takes that folder, in which they start, for a package, before it asks how an editable installation is found.
    """
    root = Path(__file__).parents[2]
    if root.name not in ("site-packages", "dist-packages"):
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*filter(None, paths), str(root)]))


@functools.cache
def _socket_folder() -> str:
    """Where multiprocessing puts this process's sockets, instead of a folder that it would create."""
    folder = make_socket_folder()
    multiprocessing.current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]
    return str(folder)


@contextlib.contextmanager
def _blocked(*signals: signal.Signals) -> Iterator[None]:
    """Context manager: hold these signals back; processes started meanwhile begin with them blocked."""
    received: list[int] = []  # by other threads, which do not block them
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in signals:
            if signal.getsignal(number) != signal.SIG_IGN:  # as under `nohup`
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
    """Start a process that runs a module's function, titled "kartrl <role>" in ps and top.

    Ctrl-C reaches the whole process group, but only the server acts on it. Once the server is gone, the process has
    `GRACE_SECONDS` to end, then gets SIGTERM, and is ended `LAST_SECONDS` after that.

    Raises:
        RunFailed: the fork server ended while starting it, and so did its successor.
    """
    # The function is passed by name: unpickling it would load its module before the process follows its parent.
    place = function.__module__, function.__qualname__
    return start_process(context.Process(target=_run, args=(role, place, arguments, options), name=role, daemon=True))


def _run(role: str, place: tuple[str, str], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Body of every process; see `spawn`."""
    gc.freeze()  # what comes from the fork server is never collected, so that its memory stays shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outlast_readers()
    setproctitle(f"kartrl {role}")
    module, name = place
    try:
        follow_parent()
        getattr(importlib.import_module(module), name)(*arguments, **options)
    except Exception as error:
        if (cause := shortage(error)) is None:
            raise
        raise SystemExit(f"kartrl: {role}: {cause}") from error  # multiprocessing prints it


def allow_children() -> None:
    """Let this process, started by `spawn`, start others; they follow it."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


@contextlib.contextmanager
def environments_hosted() -> Iterator[None]:
    """Context manager: this process may start others, as environments do, and ends them when it ends itself."""
    allow_children()
    multiprocessing.set_start_method(None, force=True)  # Python's own default; here it would be a further fork server
    mark_descendants(multiprocessing.current_process().name)
    try:
        yield
    finally:
        end_descendants()


def yield_cores(niceness: int) -> None:
    """Lower this process's priority, so that others of the run need not wait for a core.

    Args:
        niceness: added to the server's: `AGENT`, or `EVALUATOR`, which takes what agents leave.
    """
    if hasattr(os, "nice"):
        os.nice(niceness)


def follow_parent() -> None:
    """Have this process end soon after its parent.

    A thread watches the parent, so this works even while the process loads or computes, or waits for the rest of a
    message that its dead parent never finished writing.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_follow, args=(parent,), name="follow-parent", daemon=True).start()


def _follow(parent: BaseProcess) -> None:
    parent.join()
    time.sleep(GRACE_SECONDS)
    end_descendants()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(1)
