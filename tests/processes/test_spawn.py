"""Processes that a run starts."""

import multiprocessing
import os
import subprocess
import sys

import psutil
import pytest
from commands import has_ended, wait_for

from kartrl.processes.record_pipe import RecordPipe
from kartrl.processes.spawn import CHANGED

TITLE = """
import time
import psutil
from kartrl.processes.spawn import spawn, start_method
process = spawn(start_method(), "role", time.sleep, 20)
while psutil.Process(process.pid).cmdline()[0] != "kartrl role":
    assert process.is_alive()
    time.sleep(0.01)
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", CHANGED)
def test_a_process_has_its_title_whatever_its_first_environment_variable(first):
    rest = {name: value for name, value in os.environ.items() if name not in CHANGED}
    subprocess.run([sys.executable, "-c", TITLE], env={first: "1", **rest}, check=True)


ISOLATED = """
import time
from kartrl.processes.isolation import run_isolated
run_isolated(time.sleep, 600, seconds=600)
"""


@pytest.mark.timeout(120)
def test_an_isolated_process_ends_with_its_parent():
    with subprocess.Popen([sys.executable, "-c", ISOLATED]) as process:
        family = psutil.Process(process.pid)
        wait_for(lambda: len(family.children(recursive=True)) >= 3, 60, "fork server, resource tracker and the process")
        others = family.children(recursive=True)
        process.kill()
        wait_for(lambda: all(map(has_ended, others)), 30, "the end of all")


def test_what_waits_for_a_process_is_known():
    """It is lost if that process has to be replaced."""
    pipe = RecordPipe(multiprocessing.get_context("spawn"), 100)
    for _ in range(50):
        assert pipe.put(bytes(100_000))
    assert 45 < pipe.waiting <= 50, "one is being sent"
    pipe.reader.close()
