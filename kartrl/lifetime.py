"""How processes begin, and that none outlives the server."""

import importlib
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from setproctitle import setproctitle

LAST_SECONDS = 5.0  # between the polite signal and the end


def start_method() -> BaseContext:
    """How processes are made here. The server that forks them is started by the first call: it comes up while others load torch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or NumPy keeps a thread for each core in each agent
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kartrl.agent_process"])
    forkserver.ensure_running()
    return context


def run_as(role: str, module: str, *arguments: Any) -> None:
    """Body of every process: `run(*arguments)` of `module`, under the title "kartrl <role>" in ps and top.

    The module is named rather than passed, so that only the process that runs it loads what it needs. Ctrl-C reaches
    the whole group of processes; what follows is the server's to decide.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setproctitle(f"kartrl {role}")
    importlib.import_module(module).run(*arguments)


def spawn(context: Any, role: str, module: str, *arguments: Any) -> BaseProcess:
    """A process of this role, running; see `run_as`."""
    process: BaseProcess = context.Process(target=run_as, args=(role, module, *arguments), name=role, daemon=True)
    process.start()
    return process


def yield_cores() -> None:
    """The network first: this process takes what it leaves of the cores, so that the learner never waits for one."""
    if hasattr(os, "nice"):
        os.nice(19)


def follow_parent(grace: float) -> None:
    """From now on, when the parent goes, this process gets SIGTERM after `grace` seconds, and ends soon after at the latest.

    A thread watches, so this works while the process computes, or waits for the rest of a message that its dead
    parent never finished writing. In a process that multiprocessing did not start, nothing happens.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent, grace), name="follow-parent", daemon=True).start()


def _follow(parent: BaseProcess, grace: float) -> None:
    parent.join()
    time.sleep(grace)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(1)
