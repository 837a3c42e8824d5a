"""Seeds of environments, and of the random generators that the code of all environments of a process shares."""

import random
import sys

import numpy as np

SEEDS = 2**31  # exclusive limit of the seeds that environments get: many keep them in 32 bits, some of these signed


def seed_generators(seed: int) -> None:
    """Seed the global generators of Python and NumPy, and of PyTorch if it is loaded, as environments may use them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(seed % 2**63)
