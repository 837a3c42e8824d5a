"""How much of the machine this process may use."""

import contextlib
import math
import os
from pathlib import Path

import psutil


def cores() -> int:
    """Processor cores that this process may use: those that it may run on, or what a container's quota comes to."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(int(quota) / int(period)) for quota, period in control_group_limits("cpu.max")]
    return max(1, min([own, *quotas]))


def free_memory() -> int:
    """Bytes of memory that this run may take: what is free on the machine, or all that a container has been given."""
    return min([psutil.virtual_memory().available, *(int(limit) for (limit,) in control_group_limits("memory.max"))])


def control_group_limits(
    name: str, mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[list[str]]:
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
