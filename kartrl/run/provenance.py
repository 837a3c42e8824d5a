"""Where a run comes from: its command line, the versions of kartrl and of packages, and the machine."""

import contextlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from kartrl import __version__
from kartrl.hardware.machine import describe_machine
from kartrl.launch import typed

PACKAGES = ("torch", "numpy", "gymnasium", "stable-retro", "ale-py")  # those that are installed
GIT_SECONDS = 10.0  # timeout


def provenance() -> dict[str, str]:
    """Where a run that this process starts comes from, one line each: command, version, packages and machine."""
    options = sys.argv[2:] if sys.argv[1:2] == ["train"] else sys.argv[1:]
    found = {
        "command": f"{typed('train')} {shlex.join(options)}".strip(),
        "version": f"kartrl {__version__}{_commit()}",
        "packages": ", ".join([f"Python {platform.python_version()}", *_packages()]),
        "machine": describe_machine(),
    }
    return {name: "".join(c if c.isprintable() else " " for c in text) for name, text in found.items()}


def _packages() -> list[str]:
    found = []
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return found


def _commit() -> str:
    """The commit, if this is a git checkout of kartrl, not just a package somewhere inside one of another project."""
    folder = Path(__file__).parent
    others = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    git = ["git", "-C", str(folder)]

    def ask(*arguments: str) -> str:
        return subprocess.run(
            [*git, *arguments],
            env=others | {"GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        ).stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", Path(__file__).name)
        name = ask("describe", "--always", "--exclude=*", "--abbrev=40", "--dirty")
    except (OSError, subprocess.SubprocessError):  # no git, no checkout, or another project's
        return ""
    commit, dirty, _ = name.partition("-dirty")
    return f", commit {commit}{', with changes' if dirty else ''}"
