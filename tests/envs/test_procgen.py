"""Procgen's games: what can be tested without EnvPool, and, where it is installed, the games themselves."""

import importlib.util
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from commands import assert_clear, run

from kartrl.config import read
from kartrl.envs import make_env
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.procgen.world import GAMES, ProcgenWorld

INSTALLED = importlib.util.find_spec("envpool") is not None
COINRUN = ["environment.id=kartrl/Procgen-v0", "environment.height=64", "environment.width=64"]
SEEN = SimpleNamespace(has_images=True, continuous=False)
needs_envpool = pytest.mark.skipif(not INSTALLED, reason="needs kartrl[procgen]")


def world(*settings):
    return load_world(read([], [*COINRUN, *settings]))


def test_ranges_of_levels_are_to_train_and_to_test_on():
    procgen = world()
    assert isinstance(procgen, ProcgenWorld)
    assert (procgen.levels("train"), procgen.levels("test")) == (("0-199",), ("all",))
    procgen = world("levels.0-199=none", "levels.0-9=train", "levels.50-59=train", "levels.100-109=test")
    assert (procgen.levels("train"), procgen.levels("test")) == (("0-9", "50-59"), ("all", "100-109"))
    assert procgen.find_uses(["0-9", "100-109", "7-7"]) == {"0-9": "train", "100-109": "test"}
    assert procgen.find_levels(["7-7", "all"]) == ("7-7", "all")
    assert procgen.ignored_keys(SimpleNamespace(observation=SEEN, action=SEEN)) == []
    given = world("environment.kwargs.levels=0-9").ignored_keys(SimpleNamespace(observation=SEEN, action=SEEN))
    assert given == ["environment.kwargs.levels"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["levels.9-3=train"], "expected all, or a range FIRST-LAST"),
        (["levels.200=train"], "expected all, or a range FIRST-LAST"),
        (["levels.00-10=train"], "expected all, or a range FIRST-LAST"),
        (["levels.0-2147483647=train"], "below 2,147,483,647"),
        (["levels.MarioCircuit.Act1=train"], "expected all, or a range FIRST-LAST"),
        (["levels.150-300=test"], "0-199 to train on and 150-300 to test on have levels in common"),
    ],
)
def test_wrong_or_overlapping_ranges_are_one_line(overrides, said):
    with pytest.raises(UserError) as error:
        world(*overrides)
    assert said in str(error.value)
    assert_clear(error.value)


def test_level_that_is_no_range_is_refused_by_commands():
    with pytest.raises(UserError, match=r"-l unseen: expected all, or a range"):
        world().find_levels(["unseen"])


def test_an_unknown_game_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"bigfish, .*starpilot.*got pong"):
        gymnasium.make("kartrl/Procgen-v0", game="pong")


@pytest.mark.skipif(INSTALLED, reason="EnvPool is installed")
def test_missing_envpool_is_one_line_with_a_remedy(tmp_path):
    done = run("train", "-c", "coinrun", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'kartrl[procgen]'" in done.stderr


@needs_envpool
@pytest.mark.parametrize("game", ["coinrun", "starpilot"])
def test_procgen_seed_decides_level_and_events(game):
    def play():
        env = gymnasium.make("kartrl/Procgen-v0", game=game)
        observation, info = env.reset(seed=3)
        seen = [observation, *(env.step(action)[0] for action in (7, 7, 4, 1, 7))]
        return np.stack(seen), info["level_seed"]

    (first, level), (second, again) = play(), play()
    assert first.shape == (6, 64, 64, 3)
    assert first.dtype == np.uint8
    assert level == again
    assert (first == second).all()
    assert (first[0] != first[-1]).any()


@needs_envpool
def test_procgen_training_levels_exclude_unseen_ones():
    env = gymnasium.make("kartrl/Procgen-v0", levels=("50-52", "70-70"))
    drawn = set()
    for number in range(20):
        info = env.reset(seed=number)[1]
        drawn.add(info["levels"])
        assert info["level_seed"] in ({70} if info["levels"] == "70-70" else {50, 51, 52})
        info = env.reset(options={"levels": "all"})[1]
        assert info["levels"] == "all"
        assert info["level_seed"] not in {50, 51, 52, 70}
        assert env.reset(options={"levels": "8-8"})[1]["level_seed"] == 8
    assert drawn == {"50-52", "70-70"}


@needs_envpool
@pytest.mark.parametrize("game", GAMES)
def test_each_game_can_be_played(game):
    env = make_env(read([], [*COINRUN, "environment.grayscale=false", f"environment.kwargs.game={game}"]))
    assert env.reset(seed=0)[0].shape == (64, 64, 3)
    for action in range(15):
        env.step(action)
    env.close()


def test_without_a_seed_each_environment_has_levels_of_its_own(monkeypatch):
    seeds = []

    class Pool:
        def reset(self):
            return np.zeros((1, 3, 64, 64), np.uint8), {"level_seed": np.zeros(1, int)}

    def make(*_, seed, **__):
        seeds.append(seed)
        return Pool()

    monkeypatch.setitem(sys.modules, "envpool", SimpleNamespace(make=make))
    envs = [gymnasium.make("kartrl/Procgen-v0") for _ in range(3)]
    for env in envs:
        env.reset()
    assert len(set(seeds)) == len(seeds) == 3
    envs[0].reset()
    assert len(seeds) == 3, "the next level is of the same pool"
    for env in envs[:2]:
        env.reset(seed=5)
    assert seeds[3] == seeds[4]
