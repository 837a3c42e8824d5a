"""Starting another kartrl: the command that does it, and the process."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import IO


def config_options(files: Sequence[str], overrides: Iterable[str]) -> list[str]:
    """The options -c and --set that stand for these configurations."""
    return [*(("-c", *files) if files else ()), *(part for override in overrides for part in ("--set", override))]


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
