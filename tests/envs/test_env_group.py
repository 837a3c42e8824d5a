"""Environments stepped together: the ends of episodes, and Atari's fast path against Gymnasium's own wrappers."""

import gymnasium
import numpy as np
import pytest

from kartrl.config import read
from kartrl.envs import make_env, make_group
from kartrl.envs.env_group import AtariGroup, SingleGroup
from kartrl.envs.episode import STATISTICS
from kartrl.envs.registered import atari_spec
from kartrl.envs.world import World
from kartrl.envs.worlds import load_world
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


def test_a_wrapper_that_counts_episodes_too_is_no_trouble():
    wrapper = "environment.wrapper=gymnasium.wrappers:RecordEpisodeStatistics"
    group = make_group(read(overrides=["environment.id=CartPole-v1", wrapper]), 1)
    group.reset(seed=1)
    episodes = [episode for _ in range(60) for episode in group.step(np.array([0])).episodes]
    assert len(episodes) >= 4
    assert all(episode.episodic_return == episode.agent_steps for episode in episodes)
    group.close()


def test_an_episode_without_end_ends_outside_training():
    cliff = load_world(read(overrides=["environment.id=CliffWalking-v1", "evaluation.max_steps=30"]))
    for training in (True, False):
        env = cliff.open_env(training=training)
        env.reset(seed=1)
        ends = [any(env.step(0)[2:4]) for _ in range(40)]  # up, against the wall
        assert (True in ends) is not training
        env.close()


@pytest.mark.parametrize(("env", "frames"), [("CartPole-v1", 1), ("ALE/Pong-v5", 3), ("kartrl/Kart-v0", 3)])
def test_frames_are_counted_where_a_step_holds_several(env, frames):
    config = read(overrides=[f"environment.id={env}", "environment.frame_skip=3"])
    assert load_world(config).frames_per_step == frames


CROP = "crop=0 34 160 160"


@pytest.mark.parametrize(
    "view",
    [
        ("frame_stack=4", "height=84", "width=84"),
        (),
        ("grayscale=false", "frame_stack=2"),
        (CROP, "height=80", "width=80"),
        (CROP, "height=80", "width=40", "grayscale=false"),
    ],
)
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


@pytest.mark.parametrize(("crop", "begin"), [("0 34 160 160", 17), ("0 50 0 160", 25)])
def test_a_crop_of_atari_is_that_part_of_the_picture(crop, begin):
    whole = make_group(read(overrides=[*PONG, "environment.height=105", "environment.width=80"]), 1)
    part = make_group(
        read(overrides=[*PONG, *(f"environment.{key}" for key in (f"crop={crop}", "height=80", "width=80"))]), 1
    )
    pictures = whole.reset(seed=3), part.reset(seed=3)
    for action in (0, 2, 3, 3):
        np.testing.assert_array_equal(pictures[0][:, begin : begin + 80], pictures[1])
        pictures = tuple(group.step(np.array([action])).observation for group in (whole, part))
    whole.close(), part.close()


@pytest.mark.parametrize(
    ("crop", "message"),
    [
        ("0 34 160 160", "environment.height = 84 does not scale 160 pixels .* the nearest that does is 80"),
        ("0 300 0 0", "environment.crop: 0 300 0 0 is outside of the screen, 160 x 210"),
    ],
)
def test_a_crop_that_does_not_fit_atari_is_an_error(crop, message):
    config = read(overrides=[*PONG, f"environment.crop={crop}", "environment.height=84", "environment.width=80"])
    for make in (make_env, lambda config: make_group(config, 1)):
        with pytest.raises(UserError, match=message):
            make(config)


def atari(game, *overrides):
    return read(
        overrides=[
            f"environment.id={game}NoFrameskip-v4",
            "environment.frame_skip=4",
            "environment.height=16",
            "environment.width=16",
            "environment.noop_max=0",
            *overrides,
        ]
    )


@pytest.mark.parametrize("ends", ["true", "false"])
@pytest.mark.parametrize("game", ["Breakout", "MsPacman"])  # with and without FIRE
def test_lives_are_the_same_together_and_alone(game, ends):
    config = atari(game, f"environment.life_loss_ends={ends}")
    group, single = make_group(config, 1), World.make_group(load_world(config), 1)
    assert isinstance(group, AtariGroup)
    assert isinstance(single, SingleGroup)
    np.testing.assert_array_equal(group.reset(seed=3), single.reset(seed=3))
    random, ended, began, seen, total, episodes = np.random.default_rng(0), 0, False, 0.0, 0.0, []
    while len(episodes) < 2:
        action = random.integers(0, 4, 1)
        step, other = group.step(action), single.step(action)
        for mine, its in zip(step[:5], other[:5], strict=True):
            np.testing.assert_array_equal(mine, its)
        assert list(step.episodes) == list(other.episodes)
        assert step.reward[0] == 0 or not began
        seen, total = seen + step.reward[0], total + sum(episode.episodic_return for episode in step.episodes)
        ended += int(step.terminated[0])
        began = bool(step.terminated[0])
        episodes += step.episodes
    lives = {"Breakout": 5, "MsPacman": 3}[game]
    assert ended == (2 * lives if ends == "true" else 2), "an end with each life, but one return a game"
    assert total == seen > 0
    group.close()
    single.close()


def test_a_game_that_ends_just_after_a_life_counts():
    config = atari("Breakout", "environment.kwargs.max_num_frames_per_episode=100")
    seen = []
    for group in (make_group(config, 1), World.make_group(load_world(config), 1)):
        group.reset(seed=3)
        random, lost, number = np.random.default_rng(0), 0, 0
        while not (step := group.step(random.integers(0, 4, 1))).episodes:
            number += 1
            lost = number if step.terminated[0] else lost
        seen.append((lost, number, step.episodes))
        group.close()
    assert seen[0] == seen[1]
    lost, number, ((episode,)) = seen[0]
    assert lost == number, "it ended with the step after"
    assert not episode.finished


@pytest.mark.parametrize(
    ("game", "limit", "ends"),
    [
        ("Breakout", "max_num_frames_per_episode=97", "false"),
        ("Breakout", "max_num_frames_per_episode=100", "true"),
        ("Breakout", "max_episode_steps=25", "true"),
        ("MsPacman", "max_num_frames_per_episode=703", "true"),  # in which it also loses lives
        ("MsPacman", "max_num_frames_per_episode=703", "false"),
        ("DemonAttack", "max_num_frames_per_episode=1", "true"),
        ("BankHeist", "max_num_frames_per_episode=0", "true"),  # no limit; its last life is life 0
    ],
)
def test_a_cut_game_is_the_same_together_and_alone(game, limit, ends):
    config = atari(game, f"environment.kwargs.{limit}", f"environment.life_loss_ends={ends}")
    group, single = make_group(config, 3), World.make_group(load_world(config), 3)
    assert isinstance(group, AtariGroup)
    assert isinstance(single, SingleGroup)
    np.testing.assert_array_equal(group.reset(seed=3), single.reset(seed=3))
    random, ended = np.random.default_rng(0), []
    while len(ended) < 3:
        action = random.integers(0, 4, 3)
        step, other = group.step(action), single.step(action)
        for mine, its in zip(step[:5], other[:5], strict=True):
            np.testing.assert_array_equal(mine, its)
        assert list(step.episodes) == list(other.episodes)
        ended += step.episodes
    name, _, number = limit.partition("=")
    steps = -(-int(number) // (4 if "frames" in name else 1))
    if steps:
        assert steps in {episode.agent_steps for episode in ended if not episode.finished}
    else:
        assert all(episode.finished for episode in ended)
    group.close()
    single.close()


def test_a_cut_games_last_observation_is_its_last_frames():
    """Not mixed with those before, as ale-py returns them: the agent learns from its value."""
    config = atari("Breakout", "environment.height=84", "environment.width=84")
    cut = atari("Breakout", "environment.height=84", "environment.width=84", "environment.kwargs.max_episode_steps=30")
    for limited in (
        cut,
        cut.model_copy(
            update={"environment": cut.environment.model_copy(update={"kwargs": {"max_num_frames_per_episode": 120}})}
        ),
    ):
        whole, group = make_group(config, 1), make_group(limited, 1)
        whole.reset(seed=3)
        group.reset(seed=3)
        for number in range(1, 31):
            action = np.array([2 + number % 2])
            step, other = group.step(action), whole.step(action)
            np.testing.assert_array_equal(step.observation, other.observation)
            assert step.truncated[0] == (number == 30)
        whole.close()
        group.close()


@pytest.mark.parametrize("argument", ["max_num_frames_per_episode=-1", "max_num_frames_per_episode=many"])
def test_an_invalid_limit_of_frames_is_an_error(argument):
    config = atari("Breakout", f"environment.kwargs.{argument}")
    for make in (make_env, lambda config: make_group(config, 1)):
        with pytest.raises(UserError, match="max_num_frames_per_episode must be a whole number"):
            make(config)


def test_info_of_a_reset_is_no_finished_episode():
    class Numbered(gymnasium.Wrapper):
        def reset(self, **how):
            return super().reset(**how)[0], {STATISTICS: 3}

    group = SingleGroup([Numbered(gymnasium.make("CartPole-v1", max_episode_steps=2))], lambda *_: None)
    group.reset(seed=0)
    for _ in range(3):
        step = group.step(np.zeros(1, np.int64))
    assert not step.episodes
    assert not step.truncated
    group.close()


def test_every_life_begins_with_fire_where_a_game_waits_for_it():
    """Nobody presses anything: without FIRE no ball would ever fall."""
    env, lives = make_env(atari("Breakout"), training=False), []
    env.reset(seed=1)
    while True:
        _, _, terminated, truncated, info = env.step(0)
        lives.append(info["lives"])
        if terminated or truncated or len(lives) > 1000:
            break
    assert sorted(set(lives)) == [0, 1, 2, 3, 4, 5]
    assert terminated, "in an evaluation an episode is the whole game"
    assert info[STATISTICS]["l"] == len(lives)


def test_a_limit_of_steps_is_one_of_agent_steps():
    env, steps = make_env(atari("Breakout", "environment.kwargs.max_episode_steps=30"), training=True), 1
    env.reset(seed=1)
    while not (result := env.step(0))[3]:
        steps += 1
        if result[2]:  # a life
            env.reset()
            steps += 1  # which is one more step of the game
    assert steps == 30
    assert result[4][STATISTICS]["l"] == 30
    with pytest.raises(UserError, match="max_episode_steps must be a whole number, 1 or more"):
        make_env(atari("Breakout", "environment.kwargs.max_episode_steps=0"))


GAMES = {
    "pong_ppo": "Pong",
    "pong_appo": "Pong",
    "pong_acer": "Pong",
    "pong_impala": "Pong",
    "breakout": "Breakout",
    "breakout_appo": "Breakout",
    "space_invaders": "SpaceInvaders",
    "seaquest": "Seaquest",
    "beam_rider": "BeamRider",
    "ms_pacman": "MsPacman",
}


@pytest.mark.parametrize("preset", GAMES)
def test_atari_presets_are_sticky_only_by_another_id(preset):
    game = GAMES[preset]
    for name, sticky in ((f"{game}NoFrameskip-v4", 0.0), (f"ALE/{game}-v5", 0.25)):
        config = read([preset], [f"environment.id={name}"] if sticky else [])
        assert config.environment.id == name
        env = make_env(config)
        assert env.unwrapped.ale.getFloat("repeat_action_probability") == sticky
        side = 42 if preset == "pong_appo" else 84
        assert env.observation_space.shape == (side, side, 4)
        env.close()


@pytest.mark.parametrize(("name", "sticky"), [("PongNoFrameskip-v4", 0.0), ("ALE/Pong-v5", 0.25)])
def test_frames_are_skipped_once_whatever_the_id_skips_itself(name, sticky):
    config = read(overrides=[f"environment.id={name}", "environment.frame_skip=4", "environment.noop_max=5"])
    env = make_env(config)
    env.reset(seed=1)
    ale = env.unwrapped.ale
    assert ale.getFloat("repeat_action_probability") == sticky
    before = ale.getEpisodeFrameNumber()
    for _ in range(10):
        env.step(0)
    assert ale.getEpisodeFrameNumber() == before + 40
    group = make_group(config, 1)
    group.reset(seed=1)
    frames = [group.env.step(np.array([0]))[4]["episode_frame_number"][0] for _ in range(2)]
    assert frames[1] - frames[0] == 4
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


@pytest.mark.parametrize(
    ("name", "newest"),
    [("ALE/Pong", "ALE/Pong-v5"), ("BreakoutNoFrameskip", "BreakoutNoFrameskip-v4"), ("kartrl/Kart", "kartrl/Kart-v0")],
)
def test_an_id_without_its_version_is_refused(name, newest):
    with pytest.raises(UserError, match=f"id = {name}: name its version, such as {newest}$"):
        make_env(read(overrides=[f"environment.id={name}"]))


def test_large_seeds_of_atari_groups_fit_and_small_ones_stay():
    config = read(overrides=[*PONG, "environment.height=16", "environment.width=16"])
    group, pictures = make_group(config, 2), []
    for seed in (7, 2**31 + 7, 3000 * 1_000_003):
        pictures.append(group.reset(seed=seed))
        for _ in range(20):
            pictures[-1] = group.step(np.array([2, 2])).observation
    np.testing.assert_array_equal(pictures[0], pictures[1])
    group.env.reset(seed=7)
    for _ in range(20):
        last = group.step(np.array([2, 2])).observation
    np.testing.assert_array_equal(pictures[0], last)
    group.close()


def test_a_group_may_be_one():
    group = make_group(read(overrides=["environment.id=CartPole-v1"]), 1)
    assert group.reset(seed=1).shape == (1, 4)
    assert group.step(np.array([1])).observation.shape == (1, 4)
    group.close()
