"""Completion of command lines by bash, as a user's Tab key asks for it."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import environment

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("argcomplete") is None, reason="argcomplete is not installed"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash"),
]
TAB = """
eval "$(register-python-argcomplete kartrl)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<< "$1"
[[ "$1" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete kartrl "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kartrl eva", ["evaluate"]),
        ("kartrl train -c pong_ap", ["pong_appo"]),
        ("kartrl train --env CartPole-", ["CartPole-v1"]),
        ("kartrl watch my-", ["my-run"]),
        ("kartrl race scripted my-", ["my-run"]),
        ("kartrl evaluate -l MarioCircuit.Act4", ["MarioCircuit.Act4"]),
        ("kartrl evaluate -l Level16", ["Level16"]),
        ("kartrl circuit draw -l MarioCircuit.Act4", ["MarioCircuit.Act4"]),
        ("kartrl list pre", ["presets"]),
    ],
)
def test_tab_completes_names(line, words, tmp_path):
    (tmp_path / "logs" / "my-run" / "checkpoints").mkdir(parents=True)
    scripts = str(Path(sys.executable).parent)
    variables = {**environment(), "PATH": f"{scripts}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["bash", "-c", TAB, "bash", line],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert sorted({word.strip() for word in told.stdout.split()}) == words, told.stdout + told.stderr
