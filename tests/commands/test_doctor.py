"""`kartrl doctor` on this machine, and where something is wrong with it."""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import QUICK, ROOT, environment, run
from documented_fields import check_fields, documented

from kartrl.commands.doctor import CHECKS

ROM = ROOT / "kartrl" / "kart" / "games" / "KartRL-Snes" / "rom.sfc"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, which does not exist yet."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def examine(*arguments: str, cwd: Path, status: int, first: tuple[Path, ...] = ()) -> dict[str, tuple[str, str]]:
    """subject -> (state, text) of a report in plain lines; whatever happens, none is missing and it fits a screen."""
    ended = run("doctor", *arguments, cwd=cwd, first=first)
    lines = ended.stdout.splitlines()
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert ended.stderr == ""
    assert sum(math.ceil(len(line) / 100) for line in lines) <= 40
    assert lines[-1].startswith("Not ready" if status else "Ready")
    found = {}
    for line in lines[:-1]:
        match = re.fullmatch(r"(ok|warning|problem) +(.+?)  +(.+)", line)
        assert match is not None, line
        found[match[2]] = (match[1], match[3])
    assert list(found) == list(CHECKS)
    return found


def problems(found: dict[str, tuple[str, str]]) -> set[str]:
    return {subject for subject, (state, _) in found.items() if state == "problem"}


def without(module: str, folder: Path) -> tuple[Path]:
    """A folder for Python's path, with which it is as if `module` were not installed, in every process."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules[{module!r}] = None\n")
    return (folder,)


def test_this_machine_is_ready(tmp_path: Path, data: Path) -> None:
    pytest.importorskip("stable_retro")
    told = run("doctor", "--json", cwd=tmp_path)
    report = json.loads(told.stdout)
    check_fields(report, documented("doctor"))
    assert (report["ready"], [check["subject"] for check in report["checks"]]) == (True, list(CHECKS))
    assert all(check["text"] in told.stderr for check in report["checks"])
    replay = ["--set", "algorithm.name=impala", "--set", "replay.methods=queue uniform", "--set", "replay.save=true"]
    found = examine("--set", "system.agents=3", *replay, cwd=tmp_path, status=0)
    assert re.search(r"of which the replay 0\.\d, which takes up to \d\.\d GB of disk too", found["memory"][1])
    assert hashlib.sha1(ROM.read_bytes()).hexdigest() in found["bundled ROM"][1]
    assert "kartrl import-rom FILE" in found["cartridge"][1]
    assert "KartRL" in found["emulator"][1]
    assert "54 x 52 x 1 uint8, 9 actions" in found["environment"][1]
    assert found["auto chooses"][1].startswith("auto chose ")
    assert "; given: agents 3" in found["auto chooses"][1]
    assert str(data) in found["cartridge folder"][1]
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
def test_doctor_in_a_terminal_is_a_table_on_one_screen(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    variables = {**environment(), "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    command = [sys.executable, "-m", "kartrl", "doctor", *QUICK]
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output = b""
        try:
            while chunk := os.read(ours, 65536):
                assert output or b"H.264" not in chunk, "each row is shown before the next check"
                output += chunk
        except OSError:  # Linux tells so that the other side was closed
            pass
        assert process.wait(60) == 0, output
    os.close(ours)
    lines = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", output).decode().splitlines()
    assert b"\x1b[32m" in output
    assert len(lines) <= 40
    assert all(len(line) <= 100 for line in lines)


def test_a_bundled_rom_with_a_wrong_byte(tmp_path: Path) -> None:
    pytest.importorskip("stable_retro")
    shutil.copytree(ROOT / "kartrl", tmp_path / "kartrl", ignore=shutil.ignore_patterns("__pycache__"))
    rom = tmp_path / "kartrl" / "kart" / "games" / ROM.parent.name / ROM.name
    broken = bytearray(ROM.read_bytes())
    broken[-0x100] ^= 1
    rom.write_bytes(broken)
    found = examine(cwd=tmp_path, status=1, first=(tmp_path,))
    assert problems(found) == {"bundled ROM"}
    for word in (hashlib.sha1(ROM.read_bytes()).hexdigest(), hashlib.sha1(broken).hexdigest(), str(rom), "make game"):
        assert word in found["bundled ROM"][1]


def test_wrong_cartridge_is_an_error_only_where_used(tmp_path: Path, data: Path) -> None:
    (data / "SuperMarioKart-Snes").mkdir(parents=True)
    (data / "SuperMarioKart-Snes" / "rom.sfc").write_bytes(bytes(512 * 1024))
    found = examine(cwd=tmp_path, status=1)
    assert {"cartridge", "environment"} <= problems(found)
    assert "47e103d8398cf5b7cbb42b95df3a3c270691163b" in found["cartridge"][1]
    assert found["auto chooses"][0] == "warning"
    found = examine("--set", "kart.game=bundled", cwd=tmp_path, status=0)
    assert found["cartridge"][0] == "warning"


def test_no_cartridge_where_one_is_wanted(tmp_path: Path) -> None:
    found = examine("--set", "kart.game=cartridge", cwd=tmp_path, status=1)
    assert "kartrl import-rom FILE" in found["cartridge"][1]


def test_folders_that_cannot_be_written(tmp_path: Path, data: Path) -> None:
    data.write_text("in the way")
    (tmp_path / "logs").write_text("in the way")
    found = examine(*QUICK, cwd=tmp_path, status=1)
    assert problems(found) == {"logs"}
    assert "--set run.logs=FOLDER" in found["logs"][1]
    assert found["cartridge folder"][0] == "warning"
    assert "KARTRL_DATA" in found["cartridge folder"][1]


def test_without_stable_retro(tmp_path: Path) -> None:
    path = without("stable_retro", tmp_path)
    found = examine(cwd=tmp_path, status=1, first=path)
    assert problems(found) == {"emulator", "environment"}
    assert "CartPole-v1" in found["emulator"][1]
    found = examine(*QUICK, cwd=tmp_path, status=0, first=path)
    assert found["emulator"][0] == "warning"


def test_without_torch(tmp_path: Path) -> None:
    found = examine(*QUICK, cwd=tmp_path, status=1, first=without("torch", tmp_path))
    assert "torch" in found["torch"][1]
    assert "requirements.lock" in found["torch"][1]


def test_an_environment_that_takes_its_process_with_it(tmp_path: Path) -> None:
    found = examine(*QUICK, "--set", "environment.id=crashing:CrashHard-v0", cwd=tmp_path, status=1)
    assert problems(found) == {"environment"}
    assert "crashes" in found["environment"][1]


def test_doctor_reports_bad_configurations(tmp_path: Path) -> None:
    found = examine(*QUICK, "--set", "run.sed=1", cwd=tmp_path, status=1)
    assert "'seed'" in found["configuration"][1]
    found = examine(
        *QUICK,
        *("--set", "algorithm.unroll_length=10000", "--set", "system.envs_per_agent=2000"),
        *("--set", "system.device=cpu", "--set", "environment.id=kartrl/Kart-v0"),
        cwd=tmp_path,
        status=1,
    )
    assert problems(found) == {"auto chooses"}
    assert "algorithm.unroll_length" in found["auto chooses"][1]
    found = examine(*QUICK, "--set", "cluster.nodes=2", cwd=tmp_path, status=1)
    assert problems(found) == {"auto chooses"}
    assert "only with cluster.ray" in found["auto chooses"][1]
