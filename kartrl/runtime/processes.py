"""How processes begin, and that none outlives the server."""

import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import forkserver, util
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec

from setproctitle import setproctitle

GRACE_SECONDS = 2.0  # that a process has to end by itself when its parent has gone
LAST_SECONDS = 2.0  # between the signal that it gets then and the end
Arguments = ParamSpec("Arguments")


def start_method() -> BaseContext:
    """The start method of all processes. The first call starts the fork server, which loads while torch is imported."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or NumPy keeps a thread for each core in each agent
    context = multiprocessing.get_context("forkserver")
    os.environ["KARTRL_SOCKETS"] = util.get_temp_dir()  # where its socket will lie
    context.set_forkserver_preload(["kartrl.runtime.fork_server"])
    forkserver.ensure_running()
    return context


def spawn(
    context: Any,
    role: str,
    function: Callable[Arguments, None],
    /,
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> BaseProcess:
    """A process that runs a module's function, under the title "kartrl <role>" in ps and top.

    Ctrl-C reaches the whole group of processes; what follows is the server's to decide. When the server has gone, the
    process is given `GRACE_SECONDS` to end, then SIGTERM, and is ended `LAST_SECONDS` after that.
    """
    # The function travels by its name: pickled, it would load its module before the process follows its parent.
    place = function.__module__, function.__qualname__
    process: BaseProcess = context.Process(target=_run, args=(role, place, arguments, options), name=role, daemon=True)
    process.start()
    return process


def _run(role: str, place: tuple[str, str], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Body of every process; see `spawn`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setproctitle(f"kartrl {role}")
    parent = multiprocessing.parent_process()
    assert parent is not None
    # A thread watches, so this works while the process loads or computes, or waits for the rest of a message that its
    # dead parent never finished writing.
    threading.Thread(target=_follow, args=(parent,), name="follow-parent", daemon=True).start()
    module, name = place
    getattr(importlib.import_module(module), name)(*arguments, **options)


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
