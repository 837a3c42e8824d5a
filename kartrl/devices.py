"""What the network runs on: the device, the cores, and memory that is kept."""

import contextlib
import ctypes
import math
import os
from pathlib import Path

import psutil
import torch

from kartrl.errors import UserError


def choose_device(name: str) -> torch.device:
    """The device called `name`; auto is the fastest there is.

    Raises:
        UserError: this machine or this build of PyTorch has no such device.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    if not available[name]:
        there = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise UserError(f"device {name}: not on this machine or not in this build of PyTorch; there is {there}, or say auto")
    return torch.device(name)


def cores() -> int:
    """Processor cores that this process may use: those that it may run on, or what a container's quota comes to."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(int(quota) / int(period)) for quota, period in control_group_limits("cpu.max")]
    return max(1, min([own, *quotas]))


def free_memory() -> int:
    """Bytes of memory that this run may take: what is free on the machine, or all that a container has been given."""
    return min([psutil.virtual_memory().available, *(int(limit) for (limit,) in control_group_limits("memory.max"))])


def control_group_limits(name: str, mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[list[str]]:
    """The words of the file `name` in this process's control group and in those around it (version 2, Linux), where it sets a limit."""
    limits = []
    try:
        group = next((line[3:] for line in own.read_text(encoding="utf-8").splitlines() if line.startswith("0::")), "/")
    except OSError:
        return []
    here = mount / group.lstrip("/")
    for folder in (here, *(parent for parent in here.parents if parent.is_relative_to(mount))):
        with contextlib.suppress(OSError):  # no control groups, or none of this kind here
            words = (folder / name).read_text(encoding="ascii").split()
            if words[0] != "max":
                limits.append(words)
    return limits


def keep_freed_memory() -> None:
    """Have glibc keep what is freed: each update needs the same again, and new pages cost a third of an update."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is not None and hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # numbers from malloc.h
        for parameter, value in ((mmap_max, 0), (trim_threshold, (1 << 31) - 1), (top_pad, 64 << 20), (arena_max, 1)):
            libc.mallopt(parameter, value)
