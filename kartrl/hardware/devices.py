"""Choice of the network's device, and the settings of PyTorch's threads and of the memory allocator."""

import contextlib
import ctypes
import os
from collections.abc import Iterator

import torch

from kartrl.config import System
from kartrl.errors import UserError


def choose_device(name: str) -> torch.device:
    """The device called `name`, such as cpu, cuda or cuda:1; auto is the fastest available one.

    Raises:
        UserError: the device is not available on this machine or in this build of PyTorch.
    """
    if name == "cpu":  # without looking for others, which fixes the GPUs that this process may use
        return torch.device("cpu")
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    kind, _, index = name.partition(":")
    if not available.get(kind) or (index and not (index.isdecimal() and int(index) < torch.cuda.device_count())):
        there = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise UserError(
            f"device {name}: not available on this machine or in this build of PyTorch; use {there} or auto"
        )
    return torch.device(name)


def learner_device(system: System, rank: int = 0) -> torch.device:
    """The device of the network of learner `rank`; with auto on GPUs, learners take these in turn.

    Raises:
        UserError: see `choose_device`.
    """
    name = system.devices[rank % len(system.devices)]
    device = choose_device(system.device if name == "auto" else name)
    if name == "auto" and device.type == "cuda" and system.learners > 1:
        return torch.device("cuda", rank % torch.cuda.device_count())
    return device


def predictor_device(system: System, rank: int = 0) -> torch.device:
    """The device of this learner's predictors.

    Raises:
        UserError: see `choose_device`.
    """
    name = system.predictor_devices[rank % len(system.predictor_devices)]
    return learner_device(system, rank) if name == "auto" else choose_device(name)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Context manager: PyTorch computes on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def keep_freed_memory() -> None:
    """Make glibc keep freed memory: each update needs the same again, and new pages cost a third of an update."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is not None and hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # numbers from malloc.h
        for parameter, value in ((mmap_max, 0), (trim_threshold, (1 << 31) - 1), (top_pad, 64 << 20), (arena_max, 1)):
            libc.mallopt(parameter, value)
