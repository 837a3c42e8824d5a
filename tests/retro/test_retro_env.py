"""The environment of a retro game: actions, rewards, ends and starts, with the game in stable-retro's wheel."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from kartrl.config import Crop, View
from kartrl.console.isolated_emulator import IsolatedEmulator
from kartrl.console.libretro import PAD_BITS
from kartrl.errors import UserError
from kartrl.retro.env import LEVEL, PARTS, RetroEnv
from kartrl.retro.library import Game, find_game, game_in
from kartrl.retro.settings import Retro

pytest.importorskip("stable_retro", reason="no emulators on this platform")

VIEW = View(frame_skip=4, frame_stack=4, height=84, width=84, grayscale=True, crop="auto")
STEADY = {"sticky": "none", "noop_max": 0}
MakeEnv = Callable[..., RetroEnv]


@pytest.fixture
def airstriker() -> Game:
    return find_game("Airstriker-Genesis-v0")


@pytest.fixture
def make_env(airstriker: Game) -> Iterator[MakeEnv]:
    """Makes Airstriker, or another game, with settings of [retro]; closed at the end."""
    made: list[RetroEnv] = []

    def make(game: Game = airstriker, view: View = VIEW, **settings: Any) -> RetroEnv:
        made.append(RetroEnv(game, Retro(**STEADY | settings), view, ("Level1",)))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.mark.parametrize("reward", [(), ("score:0.5", "lives:1:2")])
def test_parts_of_a_shown_reward_sum_to_it(airstriker: Game, reward: tuple[str, ...]) -> None:
    section, totals = Retro(**STEADY, reward=reward, actions=("B", "left", "right")), dict[str, float]()
    with contextlib.closing(RetroEnv(airstriker, section, VIEW, ("Level1",), "rgb_array")) as env:
        _, info = env.reset(seed=0)
        assert info[PARTS] == {}
        for step in range(150):
            _, total, *_, info = env.step((0, 1, 0, 2)[step % 4])
            assert sum(info[PARTS].values()) == total
            totals = {name: totals.get(name, 0.0) + part for name, part in info[PARTS].items()}
    assert totals["score"] > 0
    assert [*totals] == ["score", *["lives"] * bool(reward)]


@pytest.fixture
def changed(airstriker: Game, tmp_path: Path) -> Callable[[dict[str, Any]], Game]:
    """Airstriker with another scenario."""

    def change(scenario: dict[str, Any]) -> Game:
        folder = tmp_path / airstriker.name
        shutil.copytree(airstriker.folder, folder)
        (folder / "scenario.json").write_text(json.dumps(scenario))
        return game_in(folder)

    return change


def held_in(env: RetroEnv, action: Any) -> list[int]:
    """The buttons held in each frame of a step."""
    held: list[int] = []

    def note(_: Any) -> None:
        assert env.console is not None
        held.append(env.console.opened().pressed)

    env.on_frame = note
    env.step(action)
    env.on_frame = None
    return held


def test_actions_of_each_kind_hold_their_buttons(make_env: MakeEnv) -> None:
    right, b = 1 << 7, 1 << 0
    env = make_env()
    assert env.action_space == spaces.Discrete(126)
    env.reset(seed=0)
    assert held_in(env, 0) == [0] * 4
    env = make_env(actions=("none", "right", "right+b"))
    env.reset(seed=0)
    assert [held_in(env, action)[0] for action in range(3)] == [0, right, right | b]
    env = make_env(actions=("none", "right"), players=2)
    assert env.action_space == spaces.MultiDiscrete([2, 2])
    env.reset(seed=0)
    assert held_in(env, np.array([1, 0]))[0] == right
    assert held_in(env, np.array([0, 1]))[0] == right << PAD_BITS
    left_and_right = np.array([1 if bit in (0, 6, 7) else 0 for bit in range(12)], np.int8)
    for kind, held in (("buttons", 1 << 6 | right | b), ("filtered", b)):
        env = make_env(actions=(kind,))
        assert env.action_space == spaces.MultiBinary(12)
        env.reset(seed=0)
        assert held_in(env, left_and_right)[0] == held


@pytest.mark.parametrize("action", [-1, 126, 0.5, None, np.array([1, 2])])
def test_invalid_action_is_refused(make_env: MakeEnv, action: Any) -> None:
    env = make_env()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match=r"invalid action .* Discrete\(126\)"):
        env.step(action)


def test_sticky_buttons_are_those_of_the_last_step(make_env: MakeEnv) -> None:
    actions = {"actions": ("none", "right"), "sticky_probability": 1.0}
    env = make_env(sticky="first", **actions)
    env.reset(seed=0)
    assert held_in(env, 1) == [128] * 4, "there is no last step"
    assert held_in(env, 0) == [128, 0, 0, 0]
    env = make_env(sticky="every", **actions)
    env.reset(seed=0)
    assert held_in(env, 1) == [0] * 4, "as in ALE, the last buttons of an episode's first frame are none"
    env = make_env(sticky="every", **actions | {"sticky_probability": 0.5})
    env.reset(seed=0)
    held = [buttons for _ in range(50) for buttons in held_in(env, 1) + held_in(env, 0)]
    changes = np.count_nonzero(np.diff(held))
    assert 50 <= changes <= 99
    assert np.mean(held) / 128 == pytest.approx(0.5, abs=0.1)


def test_equal_seeds_give_equal_episodes(make_env: MakeEnv) -> None:
    envs = [make_env(sticky="every", noop_max=30) for _ in range(2)]
    begun = [env.reset(seed=5) for env in envs]
    assert np.array_equal(begun[0][0], begun[1][0])
    for action in np.random.default_rng(0).integers(126, size=40):
        (first, *others), (second, *same) = (env.step(action) for env in envs)
        assert np.array_equal(first, second)
        assert others == same


def test_step_sums_rewards_and_skips_frames(make_env: MakeEnv, changed: Any) -> None:
    env = make_env(changed({"reward": {"time": {"reward": 0.25}}}))
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (1.0, False, False)
    assert observation.shape == (84, 84, 4)
    assert set(info) == {"gameover", "lives", "score", LEVEL}
    assert info[LEVEL] == "Level1"


def play_until(env: RetroEnv, steps: int = 3000) -> tuple[list[float], dict[str, Any], bool]:
    """Rewards, last info and whether it was terminated, of an episode of random actions."""
    env.reset(seed=0)
    rewards = []
    for action in np.random.default_rng(0).integers(env.action_space.n, size=steps):
        _, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        if terminated or truncated:
            break
    return rewards, info, terminated


def test_reward_of_variables_replaces_the_scenarios(make_env: MakeEnv) -> None:
    actions = {"life_variables": ("lives",)}
    rewards, info, terminated = play_until(make_env(**actions))
    assert sum(rewards) == info["score"] > 0
    assert terminated
    assert info["lives"] == 2, "the loss of the first life ended it"
    doubled, _, _ = play_until(make_env(reward=("score:2", "lives:5:100"), **actions))
    assert doubled == [2 * reward for reward in rewards[:-1]] + [2 * rewards[-1] - 100]
    highest, _, _ = play_until(make_env(reward=("score:1:max", "lives:1:max"), **actions))
    assert highest == rewards, "lives only decrease"


def test_entries_of_the_same_variable_each_count(make_env: MakeEnv) -> None:
    """The score only grows; lives go down."""
    actions = {"life_variables": ("lives",)}
    rewards, _, _ = play_until(make_env(**actions))
    twice, _, _ = play_until(make_env(reward=("score:1", "score:2:max", "lives:1:max", "lives:5"), **actions))
    assert twice == [3 * reward for reward in rewards[:-1]] + [3 * rewards[-1] - 5]


@pytest.fixture
def scripted(changed: Any) -> Callable[[str], Game]:
    """Airstriker with a reward by a Lua script."""

    def write(script: str) -> Game:
        game = changed({"reward": {"script": "lua:reward"}, "scripts": ["a.lua"]})
        (game.folder / "a.lua").write_text(script)
        return game

    return write


def test_script_rewards_and_can_be_left_out(make_env: MakeEnv, scripted: Callable[[str], Game]) -> None:
    game = scripted("function reward() return scenario.frame end")
    env = make_env(game)
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(0)[1] for _ in range(2)] == [1 + 2 + 3 + 4, 5 + 6 + 7 + 8]
    rewards, info, terminated = play_until(make_env(game, scenario="none", reward=("score:1",), time_limit=20))
    assert sum(rewards) == info["score"] > 0
    assert not terminated


@pytest.mark.parametrize("script", ["function reward() return nothing + 1 end", "function reward(", "x = 1"])
def test_script_that_fails_is_an_error(make_env: MakeEnv, scripted: Callable[[str], Game], script: str) -> None:
    with pytest.raises(UserError, match=r"scenario\.json: Lua call failed: .*a nil value") as raised:
        make_env(scripted(script)).reset(seed=0)
    assert "\n" not in str(raised.value)


def test_script_that_reads_an_unknown_variable_is_told_so(make_env: MakeEnv, scripted: Callable[[str], Game]) -> None:
    with pytest.raises(UserError, match=r"scenario\.json: Lua call failed: .*a variable of `data` that is not there"):
        make_env(scripted("function reward() return data.scroe end")).reset(seed=0)


def test_lost_emulator_of_a_script_costs_its_episode(make_env: MakeEnv, scripted: Callable[[str], Game]) -> None:
    game = scripted("function reward() return 1 end")
    env, other = make_env(game), make_env(game)
    for each in (env, other):
        each.reset(seed=0)
        each.step(0)
    assert env.console is not None
    emulator = env.console.opened()
    assert isinstance(emulator, IsolatedEmulator)
    os.kill(emulator.process.pid, signal.SIGKILL)
    observation, reward, terminated, truncated, info = env.step(0)
    assert observation.any()
    assert (reward, terminated, truncated, info[LEVEL]) == (0, False, True, "Level1")
    assert other.step(0)[1:4] == (4, False, False)
    env.reset(seed=0)
    assert env.step(0)[1:4] == (4, False, False)


def test_time_limit_truncates(make_env: MakeEnv) -> None:
    rewards, _, terminated = play_until(make_env(time_limit=1, actions=("none", "right")))
    assert len(rewards) == 15
    assert not terminated


def test_end_within_a_step_ends_it_there(make_env: MakeEnv, changed: Any) -> None:
    game = changed({"done": {"variables": {"score": {"op": "positive"}}}, "reward": {"time": {"reward": 1}}})
    rewards, info, terminated = play_until(make_env(game))
    assert terminated
    assert info["score"] > 0
    assert rewards[:-1] == [4] * (len(rewards) - 1)
    assert 1 <= rewards[-1] <= 4


def test_start_that_ends_at_once_is_an_error(make_env: MakeEnv, changed: Any) -> None:
    env = make_env(changed({"done": {"variables": {"lives": {"op": "equal", "reference": 3}}}}), noop_max=30)
    assert env.reset(seed=0)[1]["lives"] == 3, "frames that pass before an episode do not end it"
    with pytest.raises(UserError, match=r"an episode at Level1 ends at once: .*done.* of scenario\.json"):
        env.check("Level1")
    make_env().check("Level1")


def test_own_integration_is_checked(make_env: MakeEnv, changed: Any) -> None:
    game = changed({"crop": [0, 300, 10, 10]})
    with pytest.raises(UserError, match=r"scenario\.json: crop: 0 300 10 10 is outside of the screen"):
        make_env(game).check("Level1")
    (game.folder / "scenario.json").write_text("{}")
    file = game.folder / "data.json"
    file.write_text(json.dumps({"info": {"far": {"address": 0xE00000, "type": "|u1"}}}))
    with pytest.raises(UserError, match=r"data\.json: far: its address is not in the memory \(0xff0000 to 0xffffff\)"):
        make_env(game).check("Level1")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward": ("scor:1",)}, r"\[retro\] reward: .*no variable 'scor'.*nearest is 'score'"),
        ({"life_variables": ("life",)}, r"\[retro\] life_variables: .*no variable 'life'.*nearest is 'lives'"),
        ({"actions": ("combination",)}, r"\[retro\] actions: unknown 'combination'; the nearest is 'combinations'"),
        ({"actions": ("button",)}, "the nearest is 'buttons'"),
        ({"actions": ("strat",)}, "the nearest is 'START'"),
        ({"actions": ("none", "strat")}, r"\[retro\] actions: no such button: 'STRAT'; the nearest is 'START'"),
        ({"scenario": "contest"}, "has no scenario 'contest'; it has scenario"),
        (
            {"view": VIEW._replace(crop=Crop(400, 0, 0, 0))},
            r"\[environment\]: crop: 400 0 0 0 is outside of the screen, which is 320 pixels wide and 224 high",
        ),
    ],
)
def test_what_the_game_lacks_is_an_error(make_env: MakeEnv, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_env(**settings).reset(seed=0)


def test_crop_is_what_is_observed(make_env: MakeEnv) -> None:
    view = VIEW._replace(frame_stack=1, grayscale=False, height=30, width=40, crop=Crop(200, 10, 40, 30))
    env = make_env(view=view)
    observation, _ = env.reset(seed=0)
    screen = env.render()
    assert screen is not None
    assert np.array_equal(observation, screen[10:40, 200:240])
