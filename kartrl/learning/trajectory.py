"""Unrolls of experience."""

from typing import Generic, NamedTuple, TypeVar

Array = TypeVar("Array")  # np.ndarray on the slab, torch.Tensor on the device


class Unrolls(NamedTuple, Generic[Array]):
    """B unrolls of T steps, time first, as the trainer gets them."""

    observation: Array  # uint8 [T + 1, B, H, W, C] or float32 [T + 1, B, D]
    reset: Array  # bool [T + 1, B], True where an episode begins
    action: Array  # int64 [T, B]
    behaviour_log_prob: Array  # float32 [T, B]
    reward: Array  # float32 [T, B]
    terminated: Array  # bool [T, B]
    valid: Array  # bool [T, B], False where a step only carries an episode's last observation
    version: Array  # int64 [T, B], of the weights that acted
