"""CPU cores and memory available to this process."""

import contextlib
import ctypes
import math
import os
import platform
from pathlib import Path

import psutil

CONTROL_GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cores() -> int:
    """CPU cores available to this process, by its affinity and its container's quota."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(int(quota) / int(period)) for quota, period in control_group_limits("cpu.max")]
    return max(1, min([own, *quotas]))


def gpus() -> list[str]:
    """Names of the machine's NVIDIA GPUs, without loading their driver into this process for longer."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except pynvml.NVMLError:  # no driver
        return []


def describe_machine() -> str:
    """The machine in one line: cores available to this process, processor, memory, GPUs and system."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    memory = f"{psutil.virtual_memory().total / 1e9:.0f} GB of memory"
    system = f"{platform.system()} on {platform.machine()}"
    return ", ".join([f"{cores()} cores", processor, memory, *gpus(), system])


def free_memory() -> int:
    """Bytes of memory available to this run: the machine's free memory, at most what its containers have left."""
    return min([psutil.virtual_memory().available, *memory_left()])


def memory_left(mount: Path = CONTROL_GROUPS, own: Path = OWN_GROUP) -> list[int]:
    """Bytes that this process's control group (v2) and its ancestors have left, where they limit memory.

    Unused pages of the file cache count as left: the kernel drops them first.
    """
    left = []
    for folder in control_groups(mount, own):
        with contextlib.suppress(OSError, ValueError, KeyError):  # no control groups, no such file here, or no limit
            limit = int((folder / "memory.max").read_text(encoding="ascii"))
            used = int((folder / "memory.current").read_text(encoding="ascii"))
            words = (folder / "memory.stat").read_text(encoding="ascii").split()
            unused = int(dict(zip(words[::2], words[1::2], strict=True))["inactive_file"])
            left.append(max(0, limit - used + unused))
    return left


def control_group_limits(name: str, mount: Path = CONTROL_GROUPS, own: Path = OWN_GROUP) -> list[list[str]]:
    """Words of file `name` in this process's control group (v2) and its ancestors, where it sets a limit."""
    limits = []
    for folder in control_groups(mount, own):
        with contextlib.suppress(OSError):  # no control groups, or no such file here
            words = (folder / name).read_text(encoding="ascii").split()
            if words[0] != "max":
                limits.append(words)
    return limits


def control_groups(mount: Path, own: Path) -> list[Path]:
    """Folders of this process's control group (v2) and its ancestors, the innermost first."""
    try:
        group = next((line[3:] for line in own.read_text(encoding="utf-8").splitlines() if line.startswith("0::")), "/")
    except OSError:
        return []
    here = mount / group.lstrip("/")
    return [folder for folder in (here, *here.parents) if folder.is_relative_to(mount)]


def keep_freed_memory() -> None:
    """Make glibc keep freed memory: each update needs the same again, and new pages cost a third of an update."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is not None and hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # numbers from malloc.h
        for parameter, value in ((mmap_max, 0), (trim_threshold, (1 << 31) - 1), (top_pad, 64 << 20), (arena_max, 1)):
            libc.mallopt(parameter, value)
