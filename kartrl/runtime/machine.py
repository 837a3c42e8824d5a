"""CPU cores and memory available to this process."""

import contextlib
import math
import os
from pathlib import Path

import psutil


def cores() -> int:
    """CPU cores available to this process, by its affinity and its container's quota."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(int(quota) / int(period)) for quota, period in control_group_limits("cpu.max")]
    return max(1, min([own, *quotas]))


def free_memory() -> int:
    """Bytes of memory available to this run: the machine's free memory, at most the container's limit."""
    return min([psutil.virtual_memory().available, *(int(limit) for (limit,) in control_group_limits("memory.max"))])


def control_group_limits(
    name: str, mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[list[str]]:
    """Words of file `name` in this process's control group (v2) and its ancestors, where it sets a limit."""
    limits = []
    try:
        group = next((line[3:] for line in own.read_text(encoding="utf-8").splitlines() if line.startswith("0::")), "/")
    except OSError:
        return []
    here = mount / group.lstrip("/")
    for folder in (here, *(parent for parent in here.parents if parent.is_relative_to(mount))):
        with contextlib.suppress(OSError):  # no control groups, or no such file here
            words = (folder / name).read_text(encoding="ascii").split()
            if words[0] != "max":
                limits.append(words)
    return limits
