"""Small environments with actions of every kind, which are learned within thousands of steps.

`choosing:Choose-KIND-v0` has no masks; `choosing:Legal-KIND-v0` has, and raises an exception for an illegal action.
Their actions are one of `SPACES`.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SPACES = {
    "discrete": spaces.Discrete(4, start=3),
    "multi-discrete": spaces.MultiDiscrete([3, 4], start=[1, 0]),
    "multi-binary": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)),
    "tuple": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.Box(-2.0, 2.0, (1,), np.float32))),
    "dict": spaces.Dict(
        {
            "arm": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(0.0, 1.0, (2,), np.float64))),
            "gear": spaces.Discrete(3),
        }
    ),
}
STEPS = 10  # of an episode


class Choose(gymnasium.Env):
    """Shows the action to take, as numbers from -1 to 1; the reward is the share of its parts that is taken.

    A continuous number counts as 1 minus its distance as a fraction of half its range, at least 0.
    """

    observation_space: spaces.Space
    action_space: spaces.Space

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  # Gymnasium's own type

    def __init__(self, kind: str, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space = SPACES[kind]
        self.whole = np.concatenate([whole for _, whole in parts(self.action_space, self.action_space.sample())])
        self.observation_space = spaces.Box(-1.0, 1.0, (len(self.whole),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self.action_space.seed(seed)
        self.steps = 0
        return self._next(), {}

    def step(self, action: Any):
        assert action in self.action_space, action
        error = np.abs(self._flat(action) - self.wanted)
        right = np.where(self.whole, error < 1e-6, (1 - error).clip(0))
        self.steps += 1
        return self._next(), float(right.mean()), False, self.steps == STEPS, {}

    def render(self) -> np.ndarray:
        return np.uint8(self.wanted[None, :, None].repeat(3, 2) * 100 + 128)

    def _next(self) -> np.ndarray:
        self.wanted = self._flat(self.action_space.sample())
        return self.wanted.astype(np.float32)

    def _flat(self, action: Any) -> np.ndarray:
        return np.concatenate([numbers for numbers, _ in parts(self.action_space, action)])


def parts(space: spaces.Space, value: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """The numbers of each part of a value, scaled from their range to -1 to 1, and whether they are whole."""
    if isinstance(space, spaces.Dict):
        return [part for name, inner in space.spaces.items() for part in parts(inner, value[name])]
    if isinstance(space, spaces.Tuple):
        return [part for inner, one in zip(space.spaces, value, strict=True) for part in parts(inner, one)]
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, spaces.MultiBinary):
        low, high = 0, 1
    else:
        size = space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n
        low, high = space.start, space.start + size - 1
    numbers = np.ravel((value - low) / (high - low) * 2 - 1).astype(np.float64)
    return [(numbers, np.full(len(numbers), not isinstance(space, spaces.Box)))]


class Legal(Choose):
    """Says which actions are legal, about half of them, the one to take among them; an episode's end has none."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, _ = super().reset(seed=seed)
        return observation, self._info(False)

    def step(self, action: Any):
        assert_legal(self.action_space, action, self.mask)
        *result, truncated, _ = super().step(action)
        return *result, truncated, self._info(truncated)

    def _next(self) -> np.ndarray:
        self.target = self.action_space.sample()
        self.wanted = self._flat(self.target)
        return self.wanted.astype(np.float32)

    def _info(self, ended: bool) -> dict[str, Any]:
        self.mask = mask_around(self.action_space, self.target, self.np_random)
        return {"action_mask": nothing(self.mask) if ended else self.mask}


def mask_around(space: spaces.Space, target: Any, random: np.random.Generator) -> Any:
    """A random mask, as Gymnasium's `sample` takes it, that allows the target."""
    if isinstance(space, spaces.Dict):
        return {name: mask_around(part, target[name], random) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(mask_around(part, one, random) for part, one in zip(space.spaces, target, strict=True))
    if isinstance(space, spaces.Box):
        return None
    if isinstance(space, spaces.MultiBinary):
        return np.where(random.random(space.shape) < 0.5, 2, target).astype(np.int8)
    several = isinstance(space, spaces.MultiDiscrete)
    sizes = space.nvec if several else [space.n]
    masks = [(random.random(size) < 0.5).astype(np.int8) for size in sizes]
    for mask, place in zip(masks, np.ravel(target - space.start), strict=True):
        mask[place] = 1
    return tuple(masks) if several else masks[0]


def nothing(mask: Any) -> Any:
    """A mask of the same form, without a legal action."""
    if isinstance(mask, dict):
        return {name: nothing(part) for name, part in mask.items()}
    return tuple(map(nothing, mask)) if isinstance(mask, tuple) else None if mask is None else 0 * mask


class Late(Choose):
    """Has masks, in which only the first alternative is legal, from a step on that a first look does not reach."""

    def __init__(self, kind: str, free: int = 120, render_mode: str | None = None) -> None:
        super().__init__(kind, render_mode)
        self.free = free

    def step(self, action: Any):
        *result, _, _ = super().step(action)
        info = {"action_mask": np.array([1, 0, 0, 0], np.int8)} if self.steps > self.free else {}
        return *result, False, info


class NeverTheFirst(gymnasium.Wrapper):
    """Of each choice all alternatives but the first are legal."""

    def reset(self, **arguments: Any):
        observation, info = self.env.reset(**arguments)
        return observation, self._without(info)

    def step(self, action: Any):
        *result, info = self.env.step(action)
        return *result, self._without(info)

    def _without(self, info: dict[str, Any]) -> dict[str, Any]:
        mask = self.env.unwrapped.mask
        for own in mask:
            own[0], own[1:] = 0, 1
        return {"action_mask": mask}


def never_the_first(env: gymnasium.Env) -> gymnasium.Env:
    """For `environment.wrapper`."""
    return NeverTheFirst(env)


def assert_legal(space: spaces.Space, action: Any, mask: Any) -> None:
    """The action is one that the mask allows."""
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            assert_legal(part, action[name], mask[name])
    elif isinstance(space, spaces.Tuple):
        for part, one, own in zip(space.spaces, action, mask, strict=True):
            assert_legal(part, one, own)
    elif isinstance(space, spaces.MultiBinary):
        assert ((mask == 2) | (mask == action)).all(), "illegal"
    elif not isinstance(space, spaces.Box):
        masks = mask if isinstance(mask, tuple) else [mask]
        places = np.ravel(action - space.start)
        assert all(own[place] for own, place in zip(masks, places, strict=True)), "illegal"


for name in SPACES:
    gymnasium.register(f"Choose-{name}-v0", Choose, kwargs={"kind": name})
    gymnasium.register(f"Legal-{name}-v0", Legal, kwargs={"kind": name})
gymnasium.register("Late-v0", Late, kwargs={"kind": "discrete"})
