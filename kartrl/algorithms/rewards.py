"""Reward transforms, by their names in the configuration; rewards are [T, B]."""

from collections.abc import Callable

from torch import Tensor


def clip(reward: Tensor) -> Tensor:
    """Clip to [-1, 1] (Mnih et al. 2015)."""
    return reward.clamp(-1.0, 1.0)


def asymmetric(reward: Tensor, gain: float = 0.5) -> Tensor:
    """0.3 min(tanh r, 0) + gain max(tanh r, 0): the optimistic asymmetric clipping, with 0.5 instead of IMPALA's 5."""
    squeezed = reward.tanh()
    return 0.3 * squeezed.clamp(max=0.0) + gain * squeezed.clamp(min=0.0)


def optimistic(reward: Tensor) -> Tensor:
    """0.3 min(tanh r, 0) + 5 max(tanh r, 0): IMPALA's on DMLab-30 (arXiv:1802.01561, figure D.1)."""
    return asymmetric(reward, 5.0)


TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda reward: reward,
    "auto": lambda reward: reward,  # until `World.fit` has chosen
    "sign": lambda reward: reward.sign(),
    "clip": clip,
    "asymmetric": asymmetric,
    "optimistic": optimistic,
}


def make_transform(name: str, scale: float) -> Callable[[Tensor], Tensor]:
    """The transform of this name, applied to rewards times `scale`."""
    return lambda reward: TRANSFORMS[name](scale * reward)
