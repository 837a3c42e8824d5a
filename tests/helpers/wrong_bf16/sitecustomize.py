"""Python starts with a PyTorch whose bf16 convolutions are wrong, as on some CPUs, if this folder is in its path."""

import torch
from torch.nn import functional

right = functional.conv2d


def wrong(x, weight, *rest):
    """Half of the sum, in bf16."""
    return right(x, weight * 0.5 if x.dtype == torch.bfloat16 else weight, *rest)


functional.conv2d = wrong
