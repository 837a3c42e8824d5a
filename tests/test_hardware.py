"""Hardware use of real processes."""

import contextlib
import os
import subprocess
import sys

from kartrl.hardware import Hardware


def test_it_sees_the_whole_tree_at_work():
    busy = "import time\nbuffer = bytearray(b'x') * 150_000_000\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy]) as child:
        hardware = Hardware(os.getpid())
        before = hardware.sample()
        for _ in range(20):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
        values = hardware.sample()
        child.kill()
    assert values["hardware/cores_other"] > 0
    assert 0 <= values["hardware/cpu_percent"] <= 100
    assert 0.15 < values["hardware/memory_gb"] < before["hardware/memory_gb"] + 5


def test_a_tree_that_has_gone_is_no_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        hardware = Hardware(child.pid)
    assert hardware.sample()["hardware/memory_gb"] == 0
