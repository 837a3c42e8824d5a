"""Processes that a run starts."""

import os
import subprocess
import sys

import pytest

from kartrl.runtime.processes import CHANGED

TITLE = """
import time
import psutil
from kartrl.runtime.processes import spawn, start_method
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
