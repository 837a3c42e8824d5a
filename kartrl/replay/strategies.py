"""Strategies for choosing among the candidates."""

import numpy as np


def choose(strategy: int, number: int, drawn: np.ndarray, distance: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Choose among the candidates: int64 [number].

    If fewer than `number` are distinct, all are taken, and the rest are the first that were drawn.

    Args:
        strategy: 1: the nearest, duplicates included. 2: the nearest of each group, where the distinct candidates,
            sorted from near to far, form `number` groups of equal size. 3: the least often sampled, and of these the
            nearest. 4: the least often sampled of each group.
        number: at most n.
        drawn: slots of the candidates, int64 [n], possibly with duplicates.
        distance: of each candidate, float [n], the same for the same slot.
        count: how often each was sampled, int64 [n], the same for the same slot.
    """
    if strategy == 1:
        return drawn[np.argsort(distance, kind="stable")[:number]]
    slots, first = np.unique(drawn, return_index=True)
    if len(slots) < number:
        return np.concatenate([slots, drawn[: number - len(slots)]])
    order = np.lexsort((slots, distance[first]))  # near to far
    slots, counts = slots[order], count[first][order]
    if strategy == 3:
        return slots[np.argsort(counts, kind="stable")[:number]]
    size = len(slots) // number
    starts = np.arange(number) * size
    if strategy == 2:
        return slots[starts]
    return slots[starts + counts[: number * size].reshape(number, size).argmin(1)]
