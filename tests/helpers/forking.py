"""kartrl's commands as forks of a process that has loaded their modules, a tenth of the cost of a fresh start.

Each has a process number, session, environment, folder and streams of its own, and ends as `python -m kartrl` would.
Its own fork server is a fork too, at first.
This file, run, is the process that forks; `Forked` is what a test holds of a command.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import multiprocessing.util
import os
import resource
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil
import setproctitle

NUMBER = struct.Struct("=i")  # of a process, then its exit status
start_process = multiprocessing.util.spawnv_passfds
MODULES = (  # what the commands load, in this order
    "kartrl.cli",
    "kartrl.commands.bench.measure",
    "kartrl.commands.circuit.check",
    "kartrl.commands.circuit.drive",
    "kartrl.commands.compare",
    "kartrl.commands.doctor",
    "kartrl.commands.evaluate",
    "kartrl.commands.export",
    "kartrl.commands.record",
    "kartrl.commands.report",
    "kartrl.commands.train",
    "kartrl.comparison.experiment",
    "kartrl.comparison.picture",
    "kartrl.comparison.report",
    "kartrl.driving.levels",
    "kartrl.kart.circuits.driven_line",
    "kartrl.kart.generalisation",
    "kartrl.kart.play.stage",
    "kartrl.metrics.terminal",
    "kartrl.report.page",
    "kartrl.run.server",
)


class Forked:
    """A command at work: what of `subprocess.Popen` the tests use."""

    def __init__(
        self,
        arguments: list[str],
        script: Path,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int | IO[str],
        stderr: int,
        limits: Mapping[str, int],
        ignored: Sequence[int],
    ) -> None:
        """Args as those of `Popen`, but for `script`, the folder of the command; for the rest see `commands.start`."""
        self.args, self.returncode = arguments, None
        self.stdout, output = self._stream(stdout)
        self.stderr, errors = (None, output) if stderr == subprocess.STDOUT else self._stream(stderr)
        self._status, status = os.pipe()
        self._read: dict[IO[str], str] = {}
        request = {"arguments": arguments, "script": str(script), "cwd": str(cwd), "env": dict(env)}
        request |= {"limits": dict(limits), "ignored": list(ignored)}
        payload = json.dumps(request).encode()
        forks = _forks(env["PYTHONPATH"])
        socket.send_fds(forks, [NUMBER.pack(len(payload))], [output, errors, status])
        forks.sendall(payload)
        for fd in {output, errors, status} - ({stdout.fileno()} if not isinstance(stdout, int) else set()):
            os.close(fd)
        self.pid = self._receive()

    @staticmethod
    def _stream(target: int | IO[str]) -> tuple[IO[str] | None, int]:
        """What the test reads, and the descriptor that the command writes to."""
        if not isinstance(target, int):
            return None, target.fileno()
        assert target == subprocess.PIPE
        reader, writer = os.pipe()
        return open(reader, encoding="utf-8"), writer

    def _receive(self) -> int:
        (number,) = NUMBER.unpack(os.read(self._status, NUMBER.size))
        return int(number)

    def poll(self) -> int | None:
        """Its exit status, or None while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, when it has ended."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._receive()
            os.close(self._status)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it has written to its pipes; waits for its end."""
        end = None if timeout is None else time.monotonic() + timeout
        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]
        readers = [threading.Thread(target=self._drain, args=(stream,), daemon=True) for stream in streams]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if end is None else max(0.0, end - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if end is None else max(0.1, end - time.monotonic()))
        for stream in streams:
            stream.close()
        output, errors = (
            self._read.get(stream, "") if stream is not None else "" for stream in (self.stdout, self.stderr)
        )
        return output, errors

    def _drain(self, stream: IO[str]) -> None:
        self._read[stream] = stream.read()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended since, or its status is still on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def shell() -> dict[str, str]:
    """The variables of a user's shell: those of the tests, without the one that kartrl sets in their process."""
    return {name: value for name, value in os.environ.items() if name != "KARTRL_SOCKETS"}


@functools.cache
def _forks(path: str) -> socket.socket:
    """The way to the process that forks, which looks for modules on this path; it ends when the tests do."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**shell(), "PYTHONPATH": path, "PYTHONWARNINGS": "error::UserWarning:kartrl"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def load() -> None:
    """What the commands need, in the order in which they would load it; nothing that begins a thread."""
    setproctitle.getproctitle()  # finds where titles are written, which it cannot once the environment has changed
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

    for name in MODULES:
        importlib.import_module(name)
    assert threading.active_count() == 1
    gc.freeze()  # or a fork that collects garbage would look at, and copy, all of this


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Returns it in the fork, and None when there will be no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        size, descriptors, _, _ = socket.recv_fds(requests, NUMBER.size, 3)
        if not size:
            return None
        payload = b""
        while len(payload) < NUMBER.unpack(size)[0]:
            payload += requests.recv(NUMBER.unpack(size)[0] - len(payload))
        if os.fork() == 0:  # who waits for the command, so that its number is not another's before the test knows
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            command = os.fork()
            if command == 0:
                requests.close()
                request = json.loads(payload)
                become(request, *descriptors)
                return request
            _, status = os.waitpid(command, 0)
            os.write(descriptors[2], NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def become(request: dict[str, Any], output: int, errors: int, status: int) -> None:
    """Make this fork what the request asks for."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    os.chdir(request["cwd"])
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.write(status, NUMBER.pack(os.getpid()))
    for descriptor in {output, errors, status}:
        os.close(descriptor)
    sys.path[0] = request["script"]
    sys.argv[1:] = request["arguments"]
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    for name, limit in request["limits"].items():
        used = psutil.Process().memory_info().vms if name == "AS" else 0
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (used + limit, used + limit))


def start_forked(path: bytes, arguments: Sequence[str], passed: Sequence[int]) -> int:
    """`multiprocessing.util.spawnv_passfds` for a fork server, which begins as if it had loaded its modules anew."""
    code = arguments[-1]
    if "multiprocessing.forkserver" not in code:  # but the resource tracker
        return start_process(path, arguments, passed)
    multiprocessing.util.spawnv_passfds = start_process  # its successors, as this process has threads by then
    assert threading.active_count() == 1
    if server := os.fork():
        return server
    status = 1
    try:
        atexit._clear()
        for made in (multiprocessing.forkserver._forkserver, multiprocessing.resource_tracker._resource_tracker):
            made.__init__()  # type: ignore[misc]  # with a lock that nobody holds
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in {int(name) for name in os.listdir("/dev/fd")} - {0, 1, 2, nowhere, *passed}:
            os.dup2(nowhere, descriptor)  # closed, it would become another's, and be closed again by what has held it
        exec(code, {})
        status = 0
    except SystemExit:
        status = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        atexit._run_exitfuncs()
        os._exit(status)


if __name__ == "__main__":
    load()
    wanted = serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        multiprocessing.util.spawnv_passfds = start_forked
        runpy.run_module("kartrl", run_name="__main__", alter_sys=True)
