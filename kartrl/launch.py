"""Starting another kartrl: the command that does it, and the process."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from kartrl.config import Run

SCRIPTS = {"train": "run.py", "record": "record.py"}  # in the repository's root


def config_options(files: Sequence[str], overrides: Iterable[str]) -> list[str]:
    """The options -c and --set that stand for these configurations."""
    return [*(("-c", *files) if files else ()), *(part for override in overrides for part in ("--set", override))]


def typed(subcommand: str) -> str:
    """How the user, who started this process, would type another subcommand in the same place."""
    script = Path(sys.argv[0])
    if script.stem == "kartrl":
        return f"{_reachable(script)} {subcommand}"
    python = _reachable(Path(sys.executable))
    if script.name in SCRIPTS.values() and subcommand in SCRIPTS:
        return f"{python} {SCRIPTS[subcommand]}"
    return f"{python} -m kartrl {subcommand}"


def _reachable(program: Path) -> str:
    """A program's name where the shell finds it by that, as in an active virtual environment; else its path."""
    found = shutil.which(name := program.name)
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return name
    path = os.path.abspath(program)
    return os.path.relpath(path) if path.startswith(f"{os.getcwd()}{os.sep}") else path


def named(folder: Path) -> str:
    """What a user gives a command to name the run in this folder: its name alone, where it lies in the default one."""
    return shlex.quote(folder.name if folder.parent == Path(Run().logs) else str(folder))


def resume_command(folder: Path) -> str:
    """What a user types to resume the run in this folder."""
    return f"{typed('train')} --resume {named(folder)}"


def start_training(options: Sequence[str], output: int | IO[str] | None = None) -> "subprocess.Popen[str]":
    """`kartrl train` with these options, in a process of its own.

    Args:
        output: where what it prints goes, as `subprocess.Popen` takes it. It is then in a session of its own: Ctrl-C is
            the caller's to pass on, once, so that the training saves what it has. None: it shares this terminal.
    """
    command = [sys.executable, "-m", "kartrl", "train", *options]
    if output is None:
        return subprocess.Popen(command, text=True)
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
