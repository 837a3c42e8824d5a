"""Conditions of a strict container: read-only root, no capabilities, no home, nothing in /dev/shm."""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import EVALUATE_OFF, QUICK, ROOT, environment

# Only a temporary folder and the logs are writable; both disappear with the namespace.
PREPARE = """
set -e
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs logs
mount -t tmpfs -o ro,size=16k tmpfs /dev/shm
mount -o remount,bind,ro /
cd logs
"""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Instead of pytest's own: the path of a socket below it must be short."""
    with tempfile.TemporaryDirectory(prefix="jail-") as folder:
        yield Path(folder)


def strictly(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    for name in ("tmp", "logs"):
        (folder / name).mkdir(exist_ok=True)
    variables = {
        **environment(),
        "TMPDIR": str(folder / "tmp"),
        "HOME": "/nonexistent",
        "KARTRL_DATA": "/nonexistent/data",
    }
    jail = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{PREPARE}\nexec {jail} {command}"],
        cwd=folder,
        env=variables,
        text=True,
        capture_output=True,
        timeout=200,
        check=False,
    )


@pytest.fixture(autouse=True)
def _jail(tmp_path: Path) -> None:
    if sys.platform != "linux" or strictly(tmp_path, "true").returncode:
        pytest.skip("namespaces are not permitted")
    if strictly(tmp_path, f"touch {shlex.quote(str(ROOT / 'written'))}").returncode == 0:
        (ROOT / "written").unlink()
        pytest.skip("the repository is on a separate disk, which stays writable")


@pytest.mark.timeout(700)
def test_training_and_doctor_work_with_a_read_only_root(tmp_path: Path) -> None:
    options = [*QUICK, *EVALUATE_OFF, "--set", "run.agent_steps=3000", "--set", "run.logs=."]
    ended = strictly(tmp_path, shlex.join([sys.executable, "-m", "kartrl", "train", *options]))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "finished after" in ended.stdout
    examined = strictly(tmp_path, shlex.join([sys.executable, "-m", "kartrl", "doctor", *options]))
    assert examined.returncode == 0, examined.stdout + examined.stderr
    assert "KARTRL_DATA" in examined.stdout
    refused = strictly(
        tmp_path, shlex.join([sys.executable, "-m", "kartrl", "doctor", *options, "--set", f"run.logs={ROOT / 'logs'}"])
    )
    assert refused.returncode == 1
    assert "cannot write (Read-only file system)" in refused.stdout
