"""Legal-action masks: what environments give, in every form, and to which observation it belongs."""

import choosing
import gymnasium
import numpy as np
import pytest
from commands import assert_clear
from gymnasium import spaces
from looks import describe_env

from kartrl.config import read
from kartrl.envs import make_env, make_group
from kartrl.envs.masks import ILLEGAL as OUT
from kartrl.envs.masks import restriction
from kartrl.errors import UserError
from kartrl.sizing.inspection import remarks


class Anything(gymnasium.Env):
    def __init__(self, space: spaces.Space) -> None:
        self.action_space = space


def bits(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


GRID = spaces.MultiDiscrete([[2, 3], [1, 2]])
BOTH = spaces.Tuple((spaces.Discrete(2, start=4), spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)))
NAMED = spaces.Dict({"b": spaces.MultiBinary(1), "a": spaces.Tuple((spaces.Discrete(3), spaces.MultiDiscrete([2])))})


@pytest.mark.parametrize(
    ("space", "mask", "row"),
    [
        (spaces.Discrete(3), bits(1, 0, 1), [0, OUT, 0]),
        (spaces.Discrete(3, start=-1), bits(0, 0, 1).astype(bool), [OUT, OUT, 0]),
        (spaces.Discrete(3), [1.0, 0.0, 0.0], [0, OUT, OUT]),
        (spaces.Discrete(3), None, [0, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), (bits(1, 0), bits(0, 1, 1)), [0, OUT, OUT, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), bits(1, 0, 0, 1, 1), [0, OUT, OUT, 0, 0]),
        (spaces.MultiDiscrete([3, 3]), bits(1, 0, 0, 1, 1, 0).reshape(2, 3), [0, OUT, OUT, 0, 0, OUT]),
        (GRID, ((bits(1, 0), bits(1, 1, 0)), (bits(1), bits(0, 1))), [0, OUT, 0, 0, OUT, 0, OUT, 0]),
        (spaces.MultiBinary(3), bits(0, 1, 2), [OUT, -OUT, 0]),
        (spaces.MultiBinary((2, 2)), bits(0, 2, 2, 2).reshape(2, 2), [OUT, 0, 0, 0]),
        (BOTH, (bits(0, 1), None, bits(2, 0)), [OUT, 0, 0, 0, 0, 0, 0, OUT]),
        (BOTH, None, [0] * 8),
        (NAMED, {"a": (None, (bits(1, 0),)), "b": bits(1)}, [0, 0, 0, 0, OUT, -OUT]),
        (NAMED, {"b": bits(0)}, [0, 0, 0, 0, 0, OUT]),
    ],
)
def test_masks_of_every_kind_are_those_of_gymnasium(space, mask, row):
    found = restriction(Anything(space), mask)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array(row, np.float32))


@pytest.mark.parametrize(
    ("space", "mask", "said"),
    [
        (spaces.Discrete(3), bits(0, 0, 0), "allows no action"),
        (spaces.Discrete(3), bits(1, 1), "must be 3 numbers, each 0 or 1"),
        (spaces.Discrete(3), bits(1, 2, 0), "must be 3 numbers, each 0 or 1"),
        (spaces.Discrete(3), [np.nan, 1, 1], "must be 3 numbers, each 0 or 1"),
        (spaces.Discrete(3), "101", "must be 3 numbers, each 0 or 1"),
        (spaces.Discrete(3), (), "must be 3 numbers, each 0 or 1"),
        (spaces.Discrete(3), {0: 1}, "must be 3 numbers, each 0 or 1"),
        (spaces.MultiDiscrete([2, 2]), (bits(1, 1), bits(0, 0)), "allows no action"),
        (spaces.MultiBinary(2), bits(2, 3), "must be an array of shape (2,) of 0, 1 and 2 (either)"),
        (spaces.MultiBinary(2), bits(2, 2, 2), "must be an array of shape (2,)"),
        (spaces.Box(-1, 1, (1,)), bits(1), "must be None for a Box"),
        (BOTH, (bits(1, 1),), "must be a tuple of 3 masks"),
        (BOTH, bits(1, 1), "must be a tuple of 3 masks"),
        (NAMED, {"c": None}, "must be a dict of masks for a, b"),
        (NAMED, (None, None), "must be a dict of masks for a, b"),
    ],
)
def test_masks_that_are_none_are_one_clear_line(space, mask, said):
    with pytest.raises(UserError) as caught:
        restriction(Anything(space), mask)
    assert_clear(caught.value)
    assert said in str(caught.value)
    assert "environment.action_masks=false" in str(caught.value)


def legal(kind: str, *overrides: str):
    return read(overrides=[f"environment.id=choosing:Legal-{kind}-v0", *overrides])


@pytest.mark.parametrize("kind", [kind for kind in choosing.SPACES if kind != "box"])
def test_a_mask_belongs_to_its_observation_in_new_episodes_too(kind):
    """The environment raises an exception for an illegal action, and at an episode's end none is legal."""
    config = legal(kind)
    spec, group = describe_env(config), make_group(config, 3)
    assert spec.action.masked
    group.reset(seed=2)
    random, seen = np.random.default_rng(0), []
    for _ in range(4 * choosing.STEPS):
        seen.append(group.restriction)
        step = group.step(spec.action.sample(random, group.restriction))
        assert not group.restriction[step.truncated].any(), "no action is taken of the last observation"
    assert len({rows.tobytes() for rows in seen}) > choosing.STEPS
    group.close()


def test_environments_without_masks_report_none():
    taxi = read(overrides=["environment.id=Taxi-v4", "environment.action_masks=false"])
    assert not describe_env(taxi).action.masked
    env = make_env(legal("discrete", "environment.action_masks=false"))
    assert "action_mask" not in env.reset(seed=1)[1]
    assert "action_mask" not in env.step(env.unwrapped.target - 3)[4]
    assert not describe_env(read(overrides=["environment.id=CartPole-v1"])).action.masked


def test_taxi_is_masked():
    assert describe_env(read(overrides=["environment.id=Taxi-v4"])).action.masked


class Elsewhere(gymnasium.Env):
    """Has its masks in a method, as for sb3-contrib, or in observations, as PettingZoo's."""

    action_space = spaces.Discrete(2)

    def __init__(self, part: bool) -> None:
        parts = {"observation": spaces.MultiBinary(3), "action_mask": spaces.MultiBinary(2)}
        self.observation_space = spaces.Dict(parts) if part else parts["observation"]
        if not part:
            self.action_masks = lambda: [True, False]

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


gymnasium.register("Elsewhere-v0", Elsewhere)


@pytest.mark.parametrize("part", [True, False])
def test_masks_that_are_elsewhere_are_named(part):
    keys = ["environment.id=Elsewhere-v0", f"environment.kwargs.part={part}"]
    config = read(overrides=keys)
    (line,) = remarks(config, describe_env(config))
    assert ("the part action_mask" if part else "its method action_masks") in line
    assert "info['action_mask']" in line
    without = read(overrides=[*keys, "environment.action_masks=false"])
    assert not remarks(without, describe_env(without)), "that is what it says to do"


class Stuck(gymnasium.Env):
    """Nothing is legal after its second step."""

    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.age += 1
        return np.zeros(1, np.float32), 0.0, False, False, {"action_mask": bits(1, 1) * (self.age < 2)}


gymnasium.register("Stuck-v0", Stuck)


def test_an_environment_where_nothing_is_legal_is_one_line():
    group = make_group(read(overrides=["environment.id=Stuck-v0"]), 1)
    group.reset(seed=1)
    assert not group.restriction.any(), "a mask may be missing: all is legal"
    for _ in range(2):
        group.step(np.array([1]))
    with pytest.raises(UserError, match=r"Stuck-v0: its info.'action_mask'. allows no action"):
        _ = group.restriction
    with pytest.raises(UserError, match="allows no action"):
        describe_env(read(overrides=["environment.id=Stuck-v0"]))


def test_masks_that_only_come_later_are_refused():
    assert not describe_env(read(overrides=["environment.id=choosing:Late-v0"])).action.masked
    late = ["environment.id=choosing:Late-v0", "environment.kwargs.free=3"]
    group = make_group(read(overrides=late), 1)
    without = make_group(read(overrides=[*late, "environment.action_masks=false"]), 1)
    for one in (group, without):
        one.reset(seed=1)
        for _ in range(3):
            one.step(np.array([1]))
            one.check_unmasked()
        one.step(np.array([1]))
    without.check_unmasked()
    with pytest.raises(UserError, match=r"Late-v0: its info.'action_mask'. comes only later") as caught:
        group.check_unmasked()
    assert_clear(caught.value)
