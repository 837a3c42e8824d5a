"""Distances between features: blocks float32 [n, T, F], each of an unroll's T states."""

from collections.abc import Callable

import numpy as np

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def norm(new: np.ndarray, old: np.ndarray, p: float) -> np.ndarray:
    """The p-norm of the difference, float32 [n]."""
    difference = np.abs(new - old).reshape(len(new), -1)
    largest = difference.max(1, initial=0.0, keepdims=True)
    shares = difference / np.where(largest > 0, largest, 1)  # at most 1: powers of large differences overflow float32
    return largest[:, 0] * (shares**p).sum(1) ** (1 / p)


def cosine(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """1 - cosine of the angle between the blocks, float32 [n]: 0 for the same direction, so that small is near.

    A block of zeros is at distance 1 from all others, and 0 from another block of zeros.
    """
    a, b = new.reshape(len(new), -1), old.reshape(len(old), -1)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    both_zero = ~(a.any(1) | b.any(1))
    return 1 - (a * b).sum(1) / np.maximum(lengths, 1e-12) - both_zero.astype(a.dtype)


def kl(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The sum over the states of KL(softmax(new) || softmax(old)), float32 [n]."""
    p, q = _log_softmax(new), _log_softmax(old)
    return (np.exp(p) * (p - q)).sum((1, 2))


def make_distance(name: str, p: float) -> Distance:
    """The distance of this name; `p` is that of the norm."""
    others: dict[str, Distance] = {"cosine": cosine, "kl": kl}
    return others.get(name, lambda new, old: norm(new, old, p))


def _log_softmax(features: np.ndarray) -> np.ndarray:
    shifted = features - features.max(2, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(2, keepdims=True))
