"""Saves checkpoints in children that are killed at every stage of it; test_saves.py runs this in a process of its own.

    python killing.py FOLDER

Prints, as JSON, at what the children were killed, and which checkpoint was then the newest that could be read.
"""

import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from policies import make_checkpoint

from kartrl.learning import checkpoint
from kartrl.run.run_folder import RunFolder

BEFORE, NEW = (1, 2, 3), 4  # numbers of the checkpoints that are there, and of the one that is saved
KEEP = 2
CALLS = {"open", "write", "flush", "fileno", "fsync", "close", "replace", "rename", "scandir", "unlink"}


def kill_at(number: int, told: int) -> None:
    """Kill this process at the `number`th call that touches files, from the first open for writing; report it first."""
    seen = -1

    def hook(_: FrameType, event: str, function: Any) -> None:
        nonlocal seen
        if event != "c_call" or function.__name__ not in CALLS or (seen < 0 and function.__name__ != "open"):
            return
        seen += 1
        if seen == number:
            os.write(told, function.__name__.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(hook)


def kill_when_written(size: int) -> None:
    """Have this process killed by the kernel when it has written `size` bytes to a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def save_in_a_child(save: Callable[[], None], at: int | None, size: int | None) -> tuple[int, str]:
    """Its status, and the call at which it was killed."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        if size is not None:
            kill_when_written(size)
        if at is not None:
            kill_at(at, tell)
        save()
        sys.setprofile(None)
        os._exit(0)
    os.close(tell)
    name = os.read(told, 100).decode()
    os.close(told)
    return os.waitpid(child, 0)[1], name


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    path = folder / "checkpoints"
    for number in BEFORE:
        checkpoint.save(path / f"{number:010d}.pt", make_checkpoint(agent_steps=number))
    before = {file: file.read_bytes() for file in checkpoint.newest_first(folder)}
    content = make_checkpoint(agent_steps=NEW)
    outcomes: Counter[int] = Counter()
    names: list[str] = []
    litter = 0

    def save() -> None:
        checkpoint.save(path / f"{NEW:010d}.pt", content)
        checkpoint.remove_oldest(folder, KEEP)

    def attempt(at: int | None = None, size: int | None = None) -> bool:
        """Whether the child was killed."""
        nonlocal litter
        (path / f"{NEW:010d}.pt").unlink(missing_ok=True)
        for file, old in before.items():
            if not file.exists():
                file.write_bytes(old)
        status, name = save_in_a_child(save, at, size)
        names.append(name)
        litter += len(list(path.glob("*.tmp")))
        RunFolder(folder).release()
        assert not list(path.glob("*.tmp")), "the next start removes what the killed one has left"
        newest, *others = checkpoint.newest_first(folder)
        assert len(others) >= KEEP - 1
        assert all(file.read_bytes() == before[file] for file in others)
        if newest in before:
            assert newest.read_bytes() == before[newest]
            assert list(before) == [newest, *others], "nothing is removed before the new one is there"
        steps = checkpoint.load(newest).counters.agent_steps
        assert steps in (BEFORE[-1], NEW), steps
        outcomes[steps] += 1
        return status != 0

    checkpoint.save(folder / "whole.pt", content)
    whole = (folder / "whole.pt").stat().st_size
    for size in (0, 1, 4096, whole // 2, whole - 1):
        assert attempt(size=size)
    assert not attempt(size=whole)
    at = 0
    while attempt(at=at):
        at += 1
    print(json.dumps({"newest": outcomes, "killed_at": sorted(set(names)), "kills": at + 5, "litter": litter}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
