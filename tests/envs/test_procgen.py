"""Procgen's games: what can be tested without EnvPool, and, where it is installed, the games themselves."""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from kartrl.config import read
from kartrl.envs import make_env
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.procgen.world import GAMES, ProcgenWorld

INSTALLED = importlib.util.find_spec("envpool") is not None
COINRUN = ["environment.id=kartrl/Procgen-v0", "environment.height=64", "environment.width=64"]
needs_envpool = pytest.mark.skipif(not INSTALLED, reason="needs kartrl[procgen]")


def world(*settings):
    return load_world(read([], [*COINRUN, *settings]))


def test_training_levels_and_unseen_ones_are_two_levels():
    procgen = world()
    assert isinstance(procgen, ProcgenWorld)
    assert (procgen.levels("train"), procgen.levels("test")) == (("train",), ("unseen",))
    assert procgen.find_uses(["train", "unseen"]) == {"train": "train", "unseen": "test"}
    assert procgen.find_levels(["unseen"]) == ("unseen",)


def test_if_all_levels_are_trained_on_none_is_unseen():
    assert world("environment.kwargs.num_levels=0").all_levels() == ("train",)


def test_another_level_is_refused():
    with pytest.raises(UserError, match=r"MarioCircuit\.Act1: levels are train and unseen"):
        world().find_levels(["MarioCircuit.Act1"])


def test_an_unknown_game_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"bigfish, .*starpilot.*got pong"):
        gymnasium.make("kartrl/Procgen-v0", game="pong")


@pytest.mark.skipif(INSTALLED, reason="EnvPool is installed")
def test_missing_envpool_is_one_line_with_a_remedy(tmp_path):
    command = [sys.executable, "-m", "kartrl", "train", "-c", "coinrun", "--set", f"run.logs={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
    env = gymnasium.make("kartrl/Procgen-v0", num_levels=3, start_level=50)
    for number in range(20):
        assert env.reset(seed=number)[1]["level_seed"] in {50, 51, 52}
        info = env.reset(options={"levels": "unseen"})[1]
        assert info["level"] == "unseen"
        assert info["level_seed"] not in {50, 51, 52}


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
