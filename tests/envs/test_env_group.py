"""Environments stepped together: the ends of episodes, and Atari's fast path against Gymnasium's own wrappers."""

import numpy as np
import pytest

from kartrl.config import read
from kartrl.envs import make_env, make_group
from kartrl.envs.env_group import AtariGroup, SingleGroup
from kartrl.envs.wrappers import atari_spec
from kartrl.errors import UserError

PONG = (
    "environment.id=PongNoFrameskip-v4",
    "environment.frame_skip=4",
    "environment.noop_max=0",
)  # no sticky actions: exactly repeatable


def test_the_step_after_an_end_only_begins_the_next_episode():
    config = read(overrides=["environment.id=CartPole-v1"])
    group, single = make_group(config, 2), make_env(config)
    assert isinstance(group, SingleGroup)
    seen = group.reset(seed=7)
    for index in range(2):  # environment i is seeded with seed + i
        np.testing.assert_array_equal(seen[index], single.reset(seed=7 + index)[0])
    episodes, began, length = [], np.zeros(2, bool), np.zeros(2, int)
    for _ in range(60):
        step = group.step(np.array([0, 1]))  # the pole falls after about ten steps
        assert step.observation.dtype == np.float32
        assert (step.reward[began] == 0).all()
        assert not (step.terminated & began).any()
        assert (np.abs(step.observation[began]) < 0.05).all(), "a first observation"
        assert (np.abs(step.observation[step.terminated, 2]) > 0.2).all(), (
            "the true last one, not the next episode's first"
        )
        length += ~began
        for index in np.flatnonzero(step.terminated):
            assert length[index] in [episode.agent_steps for episode in step.episodes]
            length[index] = 0
        episodes += step.episodes
        began = step.terminated | step.truncated
    assert len(episodes) >= 6
    assert all(episode.finished and episode.episodic_return == episode.agent_steps for episode in episodes)
    group.close()


@pytest.mark.parametrize("view", [("frame_stack=4", "height=84", "width=84"), (), ("grayscale=false", "frame_stack=2")])
def test_atari_together_is_atari_alone(view):
    """Every picture and reward of one whole game."""
    config = read(overrides=[*PONG, *(f"environment.{item}" for item in view)])
    group, single = make_group(config, 2), make_env(config)
    assert isinstance(group, AtariGroup)
    pictures, (picture, _) = group.reset(seed=3), single.reset(seed=3)
    np.testing.assert_array_equal(pictures[0], picture)
    random, total, steps = np.random.default_rng(0), 0.0, 0
    while True:
        action = random.integers(0, 6, 2)
        step = group.step(action)
        picture, reward, terminated, truncated, _ = single.step(int(action[0]))
        np.testing.assert_array_equal(step.observation[0], picture)
        assert (step.reward[0], step.terminated[0], step.truncated[0]) == (reward, terminated, truncated)
        total, steps = total + reward, steps + 1
        if terminated:
            break
    assert (total, steps) in [(episode.episodic_return, episode.agent_steps) for episode in step.episodes]
    first = group.step(action)
    assert first.reward[0] == 0
    assert not first.terminated[0]
    np.testing.assert_array_equal(first.observation[0], single.reset()[0])
    group.close()


def test_which_environments_are_atari():
    def spec(name, *overrides):
        return atari_spec(read(overrides=[f"environment.id={name}", *overrides]).environment)

    assert spec("ALE/Pong-v5").kwargs["repeat_action_probability"] == 0.25
    assert spec("ALE/Pong-v5", "environment.kwargs.repeat_action_probability=0.1").kwargs == {
        **spec("ale_py:ALE/Pong-v5").kwargs,
        "repeat_action_probability": 0.1,
    }
    assert spec("ALE/Pong-v5", "environment.kwargs.obs_type=ram") is None
    assert spec("PongNoFrameskip-v4") is not None
    assert spec("CartPole-v1") is None
    with pytest.raises(UserError, match="PongNoFrameskip"):
        make_env(read(overrides=["environment.id=PongNoFrameskp-v4"]))


def test_a_group_may_be_one():
    group = make_group(read(overrides=["environment.id=CartPole-v1"]), 1)
    assert group.reset(seed=1).shape == (1, 4)
    assert group.step(np.array([1])).observation.shape == (1, 4)
    group.close()
