"""No signal is lost where C code calls Python."""

import importlib.util
import selectors
import signal
import subprocess
import sys
import threading

import pytest
from commands import environment

from kartrl.processes.interrupts import deferred, held

# An emulator's loop, as of a command that drives for ever; it tells of each exception that comes out of it.
LOOP = """
import contextlib, io, signal
from kartrl import cli
from kartrl.kart.console import KartConsole

signal.signal(signal.SIGINT, signal.default_int_handler)
with contextlib.redirect_stdout(io.StringIO()):
    cli.main(["config"])  # installs the handlers of a command
console = KartConsole("bundled", "MarioCircuit.Act1")


def drive():
    if caught:
        print(caught.pop(), flush=True)  # the next signal comes after this
    while True:
        console.step(0)


caught = ["driving"]
while True:
    try:
        drive()
    except (KeyboardInterrupt, SystemExit) as error:
        caught.append(type(error).__name__)
"""


@pytest.mark.skipif(importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform")
def test_no_signal_is_lost_in_an_emulator() -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", LOOP],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        ) as loop,
        selectors.DefaultSelector() as selector,
    ):
        assert loop.stdout is not None
        assert loop.stderr is not None
        selector.register(loop.stdout, selectors.EVENT_READ)
        try:
            assert loop.stdout.readline() == b"driving\n"
            for number, name in [(signal.SIGTERM, b"SystemExit\n"), (signal.SIGINT, b"KeyboardInterrupt\n")] * 10:
                loop.send_signal(number)
                assert selector.select(60), f"{number.name} was lost"
                assert loop.stdout.readline() == name
        finally:
            loop.kill()
        assert loop.stderr.read() == b""


def test_a_deferred_handler_waits_for_the_end_of_the_call() -> None:
    seen: list[str] = []
    earlier = signal.signal(signal.SIGUSR1, deferred(lambda number, frame: seen.append("handled")))
    try:
        with held():
            with held():
                signal.raise_signal(signal.SIGUSR1)
            seen.append("called")
        assert seen == ["called", "handled"]
        signal.raise_signal(signal.SIGUSR1)
        assert seen[2:] == ["handled"]
    finally:
        signal.signal(signal.SIGUSR1, earlier)


def test_call_in_another_thread_delays_nothing() -> None:
    seen: list[int] = []
    begun, over = threading.Event(), threading.Event()

    def call() -> None:
        with held():
            begun.set()
            over.wait(60)

    thread = threading.Thread(target=call)
    earlier = signal.signal(signal.SIGUSR1, deferred(lambda number, frame: seen.append(number)))
    try:
        thread.start()
        begun.wait(60)
        signal.raise_signal(signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, earlier)
