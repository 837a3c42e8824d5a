"""Settings of the memory allocator."""

import ctypes
import os


def keep_freed_memory() -> None:
    """Make glibc keep freed memory: each update needs the same again, and new pages cost a third of an update."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is not None and hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # numbers from malloc.h
        for parameter, value in ((mmap_max, 0), (trim_threshold, (1 << 31) - 1), (top_pad, 64 << 20), (arena_max, 1)):
            libc.mallopt(parameter, value)
