"""Reward transforms, by their names in the configuration."""

from collections.abc import Callable

from torch import Tensor


def clip(reward: Tensor) -> Tensor:
    """To [-1, 1] (Mnih et al. 2015)."""
    return reward.clamp(-1.0, 1.0)


def asymmetric(reward: Tensor) -> Tensor:
    """0.3 min(tanh r, 0) + 0.5 max(tanh r, 0): the optimistic asymmetric clipping, with 0.5 instead of IMPALA's 5."""
    squeezed = reward.tanh()
    return 0.3 * squeezed.clamp(max=0.0) + 0.5 * squeezed.clamp(min=0.0)


TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda reward: reward,
    "clip": clip,
    "asymmetric": asymmetric,
}
