"""Many episodes on all cores: as driven one by one, whatever happens to the helping processes."""

import functools
import os
import random

import gymnasium
import numpy as np
import psutil
import pytest
import torch
from needs import needs_kart
from policies import CARTPOLE, KART, by_programs, save_policy

from kartrl.config import Model
from kartrl.driving import levels
from kartrl.driving.driver import open_driver
from kartrl.driving.episodes import Start, drive, drive_together
from kartrl.driving.levels import drive_levels
from kartrl.envs.episode import STATISTICS
from kartrl.envs.observation_spec import plain
from kartrl.envs.spec import ActionSpec
from kartrl.models import make_network

CIRCUITS = ["MarioCircuit.Act1", "MarioCircuit.Act2", "MarioCircuit.Act3"]
STARTS = [Start(circuit, seed) for circuit in CIRCUITS for seed in range(2)]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return save_policy(tmp_path_factory.mktemp("kart"), [*KART, "kart.no_progress_limit=1"])


@pytest.fixture(autouse=True)
def _two_processes(monkeypatch):
    monkeypatch.setattr(levels, "LEAST_EPISODES", 3)
    monkeypatch.setattr(levels, "cores", lambda: 2)
    monkeypatch.setenv("KARTRL_IMPORT", "awkward,wandering")


def episodes(drives):
    return [one.episode for one in drives]


def one_by_one(driver, starts):
    return [
        drive(driver.world, driver.env, driver.policy, start.level, greedy=False, seed=start.seed) for start in starts
    ]


@needs_kart
@pytest.mark.parametrize("is_recorded", [False, True], ids=["network", "recorded"])
def test_episodes_on_all_cores_are_as_one_by_one(policy, is_recorded):
    ended = []
    with open_driver(policy, CIRCUITS, "cpu") as driver:
        if is_recorded:
            driver = by_programs(driver)
        alone = one_by_one(driver, STARTS)
        together = drive_levels(driver, STARTS, greedy=False, on_end=lambda start, _: ended.append(start))
    assert episodes(together) == episodes(alone)
    assert all((one.trace == other.trace).all() for one, other in zip(together, alone, strict=True))
    assert sorted(ended) == sorted(STARTS)


@needs_kart
def test_episodes_that_are_watched_are_driven_here(policy):
    """Those at the end of the list, which a helping process would take; and all, where none may help."""
    seen = []
    watched = [start._replace(on_step=seen.append, here=start.seed == 1) for start in STARTS]
    with open_driver(policy, CIRCUITS, "cpu") as driver:
        together = drive_levels(driver, watched, greedy=False)
        assert len(seen) > sum(one.episode.agent_steps for one, at in zip(together, STARTS, strict=True) if at.seed)
        seen.clear()
        alone = drive_levels(driver, watched, greedy=False, most_processes=1)
        assert len(seen) == sum(one.episode.agent_steps + 1 for one in alone)
        assert len(driver.envs) == len(STARTS)
    assert episodes(together) == episodes(alone)


@needs_kart
def test_episodes_of_a_killed_helper_are_driven_here(policy):
    killed = []

    def kill(*_):
        helpers = [one for one in psutil.Process(os.getpid()).children(True) if one.name() == "kartrl driver"]
        for helper in helpers if not killed else []:
            helper.kill()
            killed.append(helper)

    starts = [start._replace(on_step=kill) for start in STARTS]
    with open_driver(policy, CIRCUITS, "cpu") as driver:
        driven = drive_levels(driver, starts, greedy=True)
    assert len(killed) == 1
    assert [one.episode.level for one in driven] == [start.level for start in STARTS]


@needs_kart
def test_noise_of_a_wrapper_is_each_episodes_own(tmp_path):
    settings = [*KART, "kart.no_progress_limit=1", "environment.wrapper=awkward:add_noise"]
    with open_driver(save_policy(tmp_path, settings), CIRCUITS[:1], "cpu") as driver:
        starts = [Start(CIRCUITS[0], seed) for seed in range(3)]
        together = drive_levels(driver, starts, greedy=False)
        assert episodes(together) == episodes(one_by_one(driver, starts))


@pytest.mark.parametrize("how", ["break", "exit"])
def test_process_has_as_many_envs_as_it_can(tmp_path, how):
    single = ["environment.id=awkward:awkward/Single-v0", f"environment.kwargs.how={how}"]
    starts = [Start("", seed) for seed in range(7)]
    with open_driver(save_policy(tmp_path, single, most_envs=1), [], "cpu") as driver:
        together = drive_levels(driver, starts, greedy=False)
        assert episodes(together) == episodes(one_by_one(driver, starts))


@pytest.mark.parametrize("overrides", [[], ["environment.kwargs.how=break"]])
def test_changed_settings_are_driven_one_by_one(tmp_path, overrides):
    path = save_policy(tmp_path, ["environment.id=awkward:awkward/Single-v0", "environment.kwargs.most=9"])
    with open_driver(path, [], "cpu", overrides=overrides) as driver:
        assert driver.most_envs == len(overrides)


def test_envs_that_move_are_each_in_their_own_folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    starts = [Start("", seed) for seed in range(7)]
    path = save_policy(tmp_path, ["environment.id=wandering:Entering-v0"])
    monkeypatch.chdir(tmp_path)  # again: an environment has entered its own
    with open_driver(path, [], "cpu") as driver:
        together = drive_levels(driver, starts, greedy=False)
        assert os.getcwd() == str(tmp_path)
        assert episodes(together) == episodes(one_by_one(driver, starts))


class Drawing(gymnasium.Env):
    """Rewards are drawn from the generators that all environments of a process share."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.left = random.randint(3, 9)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), np.random.random() + torch.rand(()).item(), self.left == 0, False, {}


def test_shared_generators_are_each_episodes_own(tmp_path):
    with open_driver(save_policy(tmp_path, CARTPOLE), [], "cpu") as driver:
        wrap = functools.partial(gymnasium.wrappers.RecordEpisodeStatistics, stats_key=STATISTICS)
        envs = [wrap(Drawing()) for _ in range(3)]
        network = make_network(Model(hidden_size=8), plain(2), ActionSpec.of(envs[0].action_space)).eval()
        starts = [Start("", seed) for seed in range(7)]
        alone, together = (
            drive_together(driver.world, some, network, starts, greedy=True) for some in (envs[:1], envs)
        )
    assert episodes(together) == episodes(alone)
    assert len({one.episode.episodic_return for one in alone}) == 7
