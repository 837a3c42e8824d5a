"""The recursion that returns, advantages and V-trace's corrections have in common."""

import torch
from torch import Tensor


def by_doubling(term: Tensor, decay: Tensor) -> Tensor:
    """`backward_sum` in about log2(T) rounds of large operations (Hillis and Steele's scan); it rounds differently."""
    length, reach = term.shape[0], 1
    while reach < length:  # term is the sum over the next `reach` steps, decay the product of their decays
        term = torch.cat([term[:-reach] + decay[:-reach] * term[reach:], term[-reach:]])
        decay = torch.cat([decay[:-reach] * decay[reach:], decay[-reach:]])
        reach *= 2
    return term


def backward_sum(term: Tensor, decay: Tensor) -> Tensor:
    """x_t = term_t + decay_t x_{t+1}, with x_T = 0; all float [T, B].

    Step by step on a CPU; by doubling on a GPU, where the launches of many small operations would dominate.
    """
    if term.is_cuda:
        return by_doubling(term, decay)
    x = torch.zeros_like(term[0])
    steps = zip(term.flip(0).unbind(), decay.flip(0).unbind(), strict=True)
    return torch.stack([x := each + factor * x for each, factor in steps]).flip(0)
