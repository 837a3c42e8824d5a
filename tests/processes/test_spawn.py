"""Processes that a run starts."""

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import venv

import psutil
import pytest
from commands import ROOT, has_ended, wait_for

from kartrl import __version__
from kartrl.processes.pipes import RecordPipe
from kartrl.processes.socket_folder import LONGEST, RAYS, make_socket_folder
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
def test_process_has_its_title_for_any_environment_variables(first):
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


FINDER = """  # as setuptools writes it for an editable installation
import sys
from importlib.machinery import PathFinder
from importlib.util import spec_from_file_location
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "kartrl":
            return spec_from_file_location(name, {init!r}, submodule_search_locations=[{package!r}])
        if name.rpartition(".")[0] == "kartrl":
            return PathFinder.find_spec(name, path=[{package!r}])
sys.meta_path.append(Finder)
"""
IN_ALL_WAYS = """
import sys
from kartrl.launch import start_training, typed
from kartrl.processes.isolation import run_isolated
if __name__ == "__main__":
    print(run_isolated(abs, -3), start_training(["--help"], -1).wait(60), typed("evaluate"))
"""


@pytest.mark.timeout(120)
def test_processes_start_beside_a_checkout_of_kartrl(tmp_path):
    """With an editable installation, Python takes the folder for a package without code."""
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    for name, text in {
        "finder.py": FINDER.format(package=str(ROOT / "kartrl"), init=str(ROOT / "kartrl" / "__init__.py")),
        "editable.pth": "import finder",
        "shared.pth": "\n".join(path for path in sys.path if path.endswith("site-packages")),
    }.items():
        (site / name).write_text(text)
    for name in ("kartrl", "bin"):
        (tmp_path / name).mkdir()
    (python.with_name("kartrl")).write_text(IN_ALL_WAYS)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, python.with_name("kartrl")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3 0 venv/bin/kartrl evaluate\n"), done.stderr
    command = [python, "-m", "kartrl", "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"kartrl {__version__}\n"), done.stderr


@pytest.mark.timeout(60)
@pytest.mark.skipif(os.name != "posix", reason="needs sockets with paths")
def test_processes_start_where_tmpdir_is_too_long_for_sockets(tmp_path):
    folder = tmp_path / ("t" * 90)
    folder.mkdir()
    code = "from kartrl.processes.isolation import run_isolated\nprint(run_isolated(abs, -3))"
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.skipif(os.name != "posix", reason="needs sockets with paths")
def test_a_socket_folder_is_as_short_as_its_sockets_need(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = make_socket_folder(RAYS)
    assert len(str(folder)) + RAYS <= LONGEST
    folder.rmdir()
    with pytest.raises(OSError, match=re.escape(f"{tmp_path} has too long a path; set TMPDIR to a folder")):
        make_socket_folder(200)


def test_record_pipe_counts_waiting_records():
    """It is lost if that process has to be replaced."""
    pipe = RecordPipe(multiprocessing.get_context("spawn"), 100)
    for _ in range(50):
        assert pipe.put(bytes(100_000))
    assert 45 < pipe.waiting <= 50, "one is being sent"
    pipe.reader.close()
