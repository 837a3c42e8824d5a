"""Legal-action masks: what an environment says in `info["action_mask"]` about its next action.

A mask is what the `sample` of the action's space takes in Gymnasium: for Discrete 1 where an action is legal, else 0;
for MultiDiscrete such a mask for each number, as a tuple or one after another; for MultiBinary 0 or 1 where a bit must
have that value and 2 where it may have both; for Tuple and Dict one for each part. No mask, or None: all is legal.

Networks take a mask as a restriction of the policy's parameters, float32 [P]: `ILLEGAL` in place of the log-probability
of an action that is not legal, `ILLEGAL` or `-ILLEGAL` of the logit of a bit that must be 0 or 1, else 0.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kartrl.errors import UserError

KEY = "action_mask"
WITHOUT = "to do without masks, set environment.action_masks=false"
LATE = f"comes only later: give one at reset, too, all ones where all is legal; {WITHOUT}"
ILLEGAL = -1e30  # finite, as a probability of 0 times its logarithm must be 0; no network's output comes near it


class WithoutMasks(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Leaves the masks out."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {key: value for key, value in info.items() if key != KEY}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        *result, info = self.env.step(action)
        return *result, {key: value for key, value in info.items() if key != KEY}


def restriction(env: gymnasium.Env[Any, Any], mask: Any) -> np.ndarray:
    """The restriction of the policy, float32 [P], that a mask of the environment means.

    Raises:
        UserError: it is not a mask of the environment's actions, or allows none.
    """
    try:
        return np.concatenate([*_rows(env.action_space, mask)])
    except ValueError as error:
        raise UserError(f"{_name(env)}: its info['{KEY}'] {error}; {WITHOUT}") from error


def check_unmasked(env: gymnasium.Env[Any, Any], mask: Any) -> None:
    """Refuse a mask where the first look has found none: agents would not know of it.

    Raises:
        UserError: it is one.
    """
    if mask is not None:
        raise UserError(f"{_name(env)}: its info['{KEY}'] {LATE}")


def elsewhere(env: gymnasium.Env[Any, Any]) -> str:
    """Where an environment without masks in `info` has them, as PettingZoo's and those for sb3-contrib; else ""."""
    space = env.unwrapped.observation_space
    if isinstance(space, spaces.Dict) and KEY in space.spaces:
        return f"the part {KEY} of its observations"
    return "its method action_masks" if env.has_wrapper_attr("action_masks") else ""


def _name(env: gymnasium.Env[Any, Any]) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _rows(space: gymnasium.Space[Any], mask: Any) -> Iterator[np.ndarray]:
    """The restriction of each part of a space.

    Raises:
        ValueError: it is not a mask of this space, or allows nothing.
    """
    if isinstance(space, spaces.Dict):
        masks = {} if mask is None else mask
        if not isinstance(masks, Mapping) or not masks.keys() <= space.spaces.keys():
            raise ValueError(f"must be a dict of masks for {', '.join(map(str, space.spaces))}")
        for name, part in space.spaces.items():
            yield from _rows(part, masks.get(name))
    elif isinstance(space, spaces.Tuple):
        masks = (None,) * len(space.spaces) if mask is None else mask
        if not isinstance(masks, tuple | list) or len(masks) != len(space.spaces):
            raise ValueError(f"must be a tuple of {len(space.spaces)} masks")
        for part, own in zip(space.spaces, masks, strict=True):
            yield from _rows(part, own)
    elif isinstance(space, spaces.Box):
        if mask is not None:
            raise ValueError("must be None for a Box")
        yield np.zeros(2 * int(np.prod(space.shape)), np.float32)
    elif isinstance(space, spaces.MultiBinary):
        values = np.full(space.shape, 2) if mask is None else np.asarray(mask)
        if values.shape != space.shape or not np.isin(values, (0, 1, 2)).all():
            raise ValueError(f"must be an array of shape {space.shape} of 0, 1 and 2 (either) for a MultiBinary")
        yield np.array([ILLEGAL, -ILLEGAL, 0.0], np.float32)[values.ravel().astype(np.int64)]
    else:
        assert isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
        sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
        values = np.ones(sum(sizes)) if mask is None else _numbers(mask)
        if len(values) != sum(sizes) or not ((values == 0) | (values == 1)).all():
            raise ValueError(f"must be {sum(sizes)} numbers, each 0 or 1")
        if not all(part.any() for part in np.split(values, np.cumsum(sizes)[:-1])):
            raise ValueError("allows no action")
        yield np.where(values == 1, np.float32(0), np.float32(ILLEGAL))


def _numbers(mask: Any) -> np.ndarray:
    """All numbers of an array, or of nested tuples of arrays, [any]."""
    if isinstance(mask, tuple | list):
        return np.concatenate([_numbers(part) for part in mask] or [np.zeros(0)])
    return np.ravel(mask)
