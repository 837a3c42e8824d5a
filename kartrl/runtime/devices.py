"""What the network runs on: the device, and memory that is kept."""

import ctypes
import os

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
        raise UserError(
            f"device {name}: not on this machine or not in this build of PyTorch; there is {there}, or say auto"
        )
    return torch.device(name)


def keep_freed_memory() -> None:
    """Have glibc keep what is freed: each update needs the same again, and new pages cost a third of an update."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is not None and hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # numbers from malloc.h
        for parameter, value in ((mmap_max, 0), (trim_threshold, (1 << 31) - 1), (top_pad, 64 << 20), (arena_max, 1)):
            libc.mallopt(parameter, value)
