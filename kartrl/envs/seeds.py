"""Seeds of environments, and of the random generators that the code of all environments of a process shares."""

import random
import sys
from typing import Any

import numpy as np

SEEDS = 2**31  # exclusive limit of the seeds that environments get: many keep them in 32 bits, some of these signed


def seed_generators(seed: int) -> None:
    """Seed the global generators of Python and NumPy, and of PyTorch if it is loaded, as environments may use them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(seed % 2**63)


def keep_generators() -> tuple[Any, ...]:
    """The states of the generators that `seed_generators` seeds."""
    torch = sys.modules.get("torch")
    drawn = None if torch is None else torch.default_generator.get_state()
    return random.getstate(), np.random.get_state(legacy=False), drawn


def restore_generators(states: tuple[Any, ...]) -> None:
    """Continue where the generators were at `keep_generators`."""
    python, numpy, drawn = states
    random.setstate(python)
    np.random.set_state(numpy)
    if drawn is not None:
        sys.modules["torch"].default_generator.set_state(drawn)
