"""Starting another kartrl: its command line and its process."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from kartrl.config import Run
from kartrl.files import shown
from kartrl.processes.spawn import keep_importable

SCRIPTS = {"train": "run.py", "record": "record.py"}  # in the repository's root
STARTER = "KARTRL_STARTER"  # process that started this one by `start_training`
WATCH_SECONDS = 0.5


def config_options(files: Sequence[str], overrides: Iterable[str]) -> list[str]:
    """The options -c and --set for these configurations."""
    return [*(("-c", *files) if files else ()), *(part for override in overrides for part in ("--set", override))]


def typed(subcommand: str) -> str:
    """How the user who started this process would type another subcommand in the same place."""
    script = Path(sys.argv[0])
    if script.stem == "kartrl":
        return f"{_reachable(script)} {subcommand}"
    python = _reachable(Path(sys.executable))
    if _lies_in_repository(script) and subcommand in SCRIPTS:
        return f"{python} {_located(script.with_name(SCRIPTS[subcommand]))}"
    return f"{python} -m kartrl {subcommand}"


def is_kartrl(script: Path) -> bool:
    """Whether this is the program that runs kartrl, as a command or from the repository."""
    return script.stem == "kartrl" or _lies_in_repository(script)


def is_script() -> bool:
    """Whether run.py or record.py of the repository started this process."""
    return _lies_in_repository(Path(sys.argv[0]))


def _lies_in_repository(script: Path) -> bool:
    """Whether this is run.py or record.py of the repository, not a script of the user's with that name."""
    return script.name in SCRIPTS.values() and (script.absolute().parent / "kartrl" / "launch.py").is_file()


def _reachable(program: Path) -> str:
    """A program's name if the shell finds it by name, as in an active virtual environment; else its path, quoted."""
    found = shutil.which(name := program.name)
    return name if found is not None and _absolute(Path(found)) == _absolute(program) else _located(program)


def _located(file: Path) -> str:
    """A file's path, quoted: relative if it is in the current folder."""
    return shlex.quote(str(shown(_absolute(file))))


def _absolute(path: Path) -> Path:
    with contextlib.suppress(FileNotFoundError):  # the current folder has been deleted
        return Path(os.path.abspath(path))
    return path


def named(folder: Path) -> str:
    """The argument with which a user names the run in this folder.

    Its name if that is in the default folder; a path, too, if something here has this name, or if it looks like an
    option.
    """
    folder = shown(folder)
    by_name = folder.parent == Run().logs_folder and not folder.name.startswith("-") and not Path(folder.name).exists()
    return shlex.quote(folder.name if by_name else str(folder))


def known(folder: Path) -> str:
    """What the user types before a command to which a run in this folder is his own; "" if that is known anyway."""
    elsewhere = Run().logs_folder.resolve() not in folder.resolve().parents
    return f"KARTRL_LOGS={shlex.quote(os.path.abspath(folder.parent))} " if elsewhere else ""


def resume_command(folder: Path) -> str:
    """The command with which a user resumes the run in this folder."""
    return f"{typed('train')} --resume {named(folder)}"


def start_training(options: Sequence[str], output: int | IO[str] | None = None) -> "subprocess.Popen[str]":
    """Start `kartrl train` with these options in its own process, which ends if this one is killed.

    Args:
        output: destination of its output, as in `subprocess.Popen`. The process then has its own session: the caller
            must forward Ctrl-C, once, so that training saves its state. None: it shares this terminal.
    """
    keep_importable()
    command = [sys.executable, "-m", "kartrl", "train", *options]
    environment = os.environ | {STARTER: str(os.getpid())}
    if output is None:
        return subprocess.Popen(command, env=environment, text=True)
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def follow_starter() -> None:
    """If `start_training` started this process, send it SIGTERM when the process that called it has ended."""
    starter = os.environ.pop(STARTER, None)

    def follow() -> None:
        while os.getppid() == int(starter or 0):
            time.sleep(WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    if starter is not None:
        threading.Thread(target=follow, name="follow-starter", daemon=True).start()
