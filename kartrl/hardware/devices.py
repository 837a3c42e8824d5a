"""Choice of the network's device, and of PyTorch's threads."""

import contextlib
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
