"""Running kartrl's own commands in real processes, for the tests."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil
from forking import Forked, shell

from kartrl.learning import checkpoint
from kartrl.metrics import scalars_csv

ROOT = Path(__file__).parents[2]
HELPERS = Path(__file__).parent
KARTRL = Path(sys.executable).with_name("kartrl")
QUICK = ["--set", "environment.id=CartPole-v1", "--set", "model.hidden_size=16", "--set", "system.agents=2"]
EVALUATE_OFF = ["--set", "evaluation.minutes=0"]
UNTIL_ENDED = ["--set", "run.agent_steps=1000000000", "--set", "run.checkpoint_minutes=0.02"]
PACED = ["--set", "environment.id=pacing:Paced-v0"]
ENDLESS = [*QUICK, *PACED, *EVALUATE_OFF, *UNTIL_ENDED, "--set", "run.name=run"]
# Faults to inject (CONTRIBUTING.md): the server reports several times a second;
REPORT_OFTEN = "report=0.2"
END_SLOWLY = "join=30"  # at the end, it waits for processes that a busy machine keeps from ending for a while


def environment(*first: Path) -> dict[str, str]:
    """Of kartrl's commands; Python looks in the folders `first` before all others."""
    return {
        "KARTRL_IMPORT": "pacing",
        **shell(),
        "PYTHONPATH": os.pathsep.join(map(str, (*first, ROOT, HELPERS))),
        "PYTHONWARNINGS": "error::UserWarning:kartrl",
        "COLUMNS": "200",
    }


def start(
    *arguments: str,
    cwd: Path,
    stdout: int | IO[str],
    stderr: int,
    first: Sequence[Path] = (),
    faults: str = "",
    limits: Mapping[str, int] | None = None,
    ignored: Sequence[int] = (),
    fresh: bool = False,
    installed: bool = False,
) -> "subprocess.Popen[str] | Forked":
    """A kartrl command, in a session of its own.

    Args:
        first: folders in which Python looks for modules before all others.
        faults: what to inject, as in CONTRIBUTING.md.
        limits: name of a resource -> its limit in the process; of the address space (AS): what may be added.
        ignored: signals that it ignores, as under `nohup`.
        fresh: loads everything anew, as `python -m kartrl`, instead of in a fork of a process that has it loaded.
        installed: does not look for modules in the current folder, as the installed command `kartrl`.
    """
    env = environment(*first) | ({"KARTRL_FAULTS": faults} if faults else {})
    if not (fresh or first) and hasattr(os, "fork"):
        script = KARTRL.parent if installed else cwd
        return Forked(list(arguments), script, cwd, env, stdout, stderr, limits or {}, ignored)
    assert not limits
    assert not ignored
    python = [sys.executable, "-m", "kartrl"]
    return subprocess.Popen(
        [*([str(KARTRL)] if installed else python), *arguments],
        cwd=cwd,
        env=env,
        text=True,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def run(*arguments: str, cwd: Path, timeout: float = 100, **how: Any) -> subprocess.CompletedProcess[str]:
    """A kartrl command to its end; `how` goes to `start`."""
    process = start(*arguments, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.wait(60), output, errors)


def run_example(name: str, *arguments: str, cwd: Path) -> str:
    """What an example script prints, run to its end."""
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Training:
    """A `kartrl train` in the background, in a session of its own; a context manager that leaves no process behind.

    What it prints goes to `output`, or is returned by `end`.
    """

    def __init__(self, cwd: Path, *arguments: str, output: IO[str] | None = None, **how: Any) -> None:
        """`how` goes to `start`."""
        stdout = output or subprocess.PIPE
        self.process = start("train", *arguments, cwd=cwd, stdout=stdout, stderr=subprocess.STDOUT, **how)

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *_: object) -> None:
        kill_all(self.family())
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def family(self) -> list[psutil.Process]:
        """All living processes of its session."""
        family = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    family.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return family

    def roles(self, name: str) -> list[psutil.Process]:
        """Its processes with this role, by the title that they have taken."""
        return titled(self.family(), f"kartrl {name}", whole=True)

    def role(self, name: str) -> psutil.Process:
        """Its process with this role, which may be coming up still: others can have trained and saved meanwhile."""
        found: list[psutil.Process] = []

        def is_there() -> bool:
            found[:] = self.roles(name)
            return len(found) == 1

        wait_for(is_there, 60, f"the process {name}")
        return found[0]

    def end(self, number: signal.Signals | None = None, timeout: float = 60) -> tuple[int, str]:
        """Send a signal if given; the exit status and all that was printed."""
        if number is not None:
            self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, output


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL for `processes`, some of which may have ended."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def has_ended(process: psutil.Process) -> bool:
    """Whether it has; it may stay a zombie, if the process that should reap it has ended too."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # since the first look
        return True


def titled(processes: Iterable[psutil.Process], title: str, whole: bool = False) -> list[psutil.Process]:
    """Those of `processes` whose title is this one, or begins so; some may end while they are looked at."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            words = process.cmdline()  # none, while it ends
            if words and (words[0] == title if whole else words[0].startswith(title)):
                found.append(process)
    return found


def sockets(processes: Iterable[psutil.Process]) -> list[Any]:
    """Network sockets of `processes`, some of which may end while they are looked at."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += process.net_connections("inet")
    return found


def logged(folder: Path) -> list[scalars_csv.Row]:
    """The scalars that a run has logged since its first update."""
    return [row for row in scalars_csv.read(folder) if row.agent_steps > 0]


def assert_clear(error: Exception) -> None:
    """One line, and no long one."""
    assert len(str(error).splitlines()) == 1, str(error)
    assert len(str(error)) < 600, str(error)


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until `condition` is true; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline  # before the look: who is held up after one looks once more
        if condition():
            return
        assert not late, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def steps(run_folder: Path) -> int:
    """Agent steps of the newest checkpoint."""
    path = checkpoint.newest(run_folder)
    return int(path.stem) if path is not None else 0
