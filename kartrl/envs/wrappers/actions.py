"""Environments that take actions as `ActionSpec.taken` gives them."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers

from kartrl.config import Environment
from kartrl.envs.spec import ActionSpec, describe, has_bound, leaves
from kartrl.errors import UserError

Env = gymnasium.Env[Any, Any]
Space = gymnasium.Space[Any]


def take_actions(env: Env, section: Environment) -> Env:
    """`env` with actions as `ActionSpec.taken` gives them: choices count from 0, and numbers are clipped to the bounds.

    Its space has the bounds to which -1 and 1 are scaled.

    Raises:
        UserError: they are not supported.
    """
    space, bounds = env.action_space, section.action_bounds
    if isinstance(bounds, tuple):
        space = _changed(space, lambda leaf: _bounded(leaf, *bounds))
    shown = _changed(_changed(space, _unit) if bounds == "none" else space, _from_0)
    ActionSpec.of(shown)
    if isinstance(shown, spaces.Discrete) and shown == env.action_space:
        return env
    # ClipAction would clip before rounding to the environment's dtype, and hides the bounds
    return wrappers.TransformAction(env, _taker(space), shown)


def _changed(space: Space, change: Callable[[Space], Space]) -> Space:
    """A space with each part that is no Dict or Tuple changed."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(name, _changed(part, change)) for name, part in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_changed(part, change) for part in space.spaces])
    return change(space)


def _from_0(space: Space) -> Space:
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec)
    return spaces.Discrete(space.n) if isinstance(space, spaces.Discrete) else space


def _unit(space: Space) -> Space:
    """Floats of any bounds as those from -1 to 1."""
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return space
    return spaces.Box(-1, 1, space.shape, space.dtype.type)


def _bounded(space: Space, low: float, high: float) -> Space:
    """Floats with these bounds where they have none."""
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return space
    lows = np.where(has_bound(space.low), space.low, low).astype(space.dtype)
    highs = np.where(has_bound(space.high), space.high, high).astype(space.dtype)
    if not (lows < highs).all():
        raise UserError(f"its actions are {describe(space)}; action_bounds {low:g} {high:g} would not keep low < high")
    return spaces.Box(lows, highs, dtype=space.dtype.type)


def _taker(space: Space) -> Callable[[np.ndarray], Any]:
    """A function that turns an action [D], or [] of one number, into what a space holds."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = [*(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)]
        takers = [_taker(part) for part in parts]
        ends = np.cumsum([sum(math.prod(leaf.shape or ()) for _, leaf in leaves(part)) for part in parts])[:-1]
        form = (lambda given: dict(zip(space.spaces, given, strict=True))) if isinstance(space, spaces.Dict) else tuple

        def taken(action: np.ndarray) -> Any:
            each = np.split(np.atleast_1d(action), ends)
            return form([take(own) for take, own in zip(takers, each, strict=True)])

        return taken
    dtype, shape = space.dtype, space.shape or ()
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
        return lambda action: np.clip(np.asarray(action, dtype).reshape(shape), low, high)
    start = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    return lambda action: np.asarray(action, dtype).reshape(shape) + start
