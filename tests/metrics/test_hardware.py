"""Hardware use of real processes."""

import contextlib
import os
import subprocess
import sys

import psutil
from commands import wait_for

from kartrl.metrics.hardware import Hardware


def test_hardware_use_covers_the_whole_process_tree():
    busy = "input()\nbuffer = bytearray(b'x') * 150_000_000\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE) as child:
        hardware = Hardware(os.getpid())
        before = hardware.sample()
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_for(lambda: psutil.Process(child.pid).cpu_times().user > 0.5, 60, "it to have worked")
        values = hardware.sample()
        child.kill()
    assert values["system/cores_other"] > 0
    assert 0 <= values["system/cpu_percent"] <= 100
    assert values["system/memory_gb"] - before["system/memory_gb"] > 0.14, "of the child"


def test_memory_is_reported_by_role():
    holder = (
        "import sys, setproctitle; setproctitle.setproctitle(sys.argv[1])\n"
        "buffer = bytearray(b'x') * int(sys.argv[2])\nprint('there', flush=True)\nsys.stdin.read()"
    )
    sizes = {"agent-0": 60_000_000, "agent-1": 60_000_000, "evaluator": 150_000_000, "logger": 1}
    with contextlib.ExitStack() as stack:
        for role, size in sizes.items():
            command = [sys.executable, "-c", holder, f"kartrl {role}", str(size)]
            child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            assert child.stdout is not None
            child.stdout.readline()
        values = Hardware(os.getpid()).sample()
        memory = {role: values[f"system/memory_gb_{role}"] for role in ("server", "agents", "evaluator", "logger")}
    assert 0.12 < memory["agents"] < 0.25
    assert 0.15 < memory["evaluator"] < 0.25
    assert 0 < memory["logger"] < 0.1
    assert memory["server"] > 0
    assert sum(memory.values()) <= values["system/memory_gb"] * 1.001


def test_a_tree_that_has_gone_is_no_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        hardware = Hardware(child.pid)
    assert hardware.sample()["system/memory_gb"] == 0
