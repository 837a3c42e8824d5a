"""Strategies by which some of the candidates are taken."""

import numpy as np


def choose(strategy: int, number: int, drawn: np.ndarray, distance: np.ndarray, count: np.ndarray) -> np.ndarray:
    """So many of the candidates, int64 [number].

    Where fewer than that are different, all are taken, and the rest are the first that were drawn.

    Args:
        strategy: 1: the nearest, those that were drawn several times as often. 2: the nearest of every group, where
            those that are different, from near to far, make `number` groups of the same size. 3: the least often
            sampled, of these the nearest. 4: the least often sampled of every group.
        number: at most as many as were drawn.
        drawn: slots, int64 [n], some of them several times.
        distance: of each, float [n], the same for the same slot.
        count: how often each was sampled, int64 [n], likewise.
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
