"""The device the network runs on, and sizes that suit the machine."""

import os
from typing import NamedTuple

import torch

from kartrl.config import System
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


class Sizes(NamedTuple):
    """The numbers of [system], with a choice for this machine wherever it says auto."""

    agents: int
    prediction_batch_size: int
    training_queue: int
    torch_threads: int


def choose_sizes(system: System) -> Sizes:
    """Numbers for this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    on_cpu = choose_device(system.device).type == "cpu"
    # Agents wait for answers half of their time: several per core keep the cores and the batches full.
    agents = _or(system.agents, max(4, 4 * cores))
    return Sizes(
        agents=agents,
        prediction_batch_size=_or(system.prediction_batch_size, agents),
        training_queue=_or(system.training_queue, 2 * system.training_batch_size),
        torch_threads=_or(system.torch_threads, max(1, cores // 4) if on_cpu else 1),
    )


def _or(number: int | str, choice: int) -> int:
    return number if isinstance(number, int) else choice
