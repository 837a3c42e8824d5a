"""Names of actions, by what the actions do."""

from typing import Any

import gymnasium
import pytest

from kartrl.config import read
from kartrl.envs.worlds import load_world

UP, RIGHT, DOWN, LEFT = (-1, 0), (0, 1), (1, 0), (0, -1)
MOVES = {"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT}
GRIDS = {  # a state in the middle, and a state's row and column
    "FrozenLake-v1": (9, lambda env: divmod(int(env.s), 4)),
    "CliffWalking-v1": (17, lambda env: divmod(int(env.s), 12)),
    "Taxi-v4": (244, lambda env: tuple(env.decode(env.s))[:2]),
}


def opened(id: str, **kwargs: Any) -> tuple[gymnasium.Env, tuple[str, ...]]:
    settings = [f"environment.kwargs.{key}={value}" for key, value in kwargs.items()]
    world = load_world(read(overrides=[f"environment.id={id}", *settings]))
    env = world.open_env()
    return env, world.action_names(env)


@pytest.mark.parametrize("id", GRIDS)
def test_moves_on_grids_are_named_by_where_they_lead(id: str) -> None:
    env, names = opened(id, **({"is_slippery": False} if id != "Taxi-v4" else {}))
    assert {*MOVES} <= {*names}
    begin, place = GRIDS[id]
    for action, name in enumerate(names):
        if name in MOVES:
            env.reset(seed=0)
            env.unwrapped.s = begin
            before = place(env.unwrapped)
            env.step(action)
            after = place(env.unwrapped)
            assert (after[0] - before[0], after[1] - before[1]) == MOVES[name], name


@pytest.mark.parametrize(("id", "speed"), [("CartPole-v1", 1), ("kartrl/MaskedCartPole-v1", 1), ("MountainCar-v0", 1)])
def test_pushes_are_named_by_their_direction(id: str, speed: int) -> None:
    env, names = opened(id)
    speeds = []
    for name in ("left", "right"):
        env.reset(seed=0)
        env.step(names.index(name))
        speeds.append(env.unwrapped.state[speed])
    assert speeds[0] < speeds[1]


def test_only_gymnasiums_own_environments_have_these_names() -> None:
    env, names = opened("kartrl/Snake-v0")
    assert names == ("UP", "RIGHT", "DOWN", "LEFT")
    assert opened("Pendulum-v1")[1] == ()
    assert len(names) == env.action_space.n


def test_procgens_names_are_as_many_as_its_actions() -> None:
    procgen = pytest.importorskip("kartrl.procgen.world")
    assert len(procgen.COMBINATIONS.split()) == 15
