"""Environments of third parties: what Gymnasium allows is handled, and what it does not is one line."""

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import awkward
import numpy as np
import psutil
import pytest
from commands import assert_clear
from policies import save_policy
from rich.console import Console

from kartrl.acting.supervisor import first_seed
from kartrl.config import Config, read
from kartrl.driving.driver import open_driver
from kartrl.driving.episodes import drive
from kartrl.envs import make_env, make_group
from kartrl.envs.env_group import EnvGroup
from kartrl.envs.episode import STATISTICS
from kartrl.envs.first_look import look
from kartrl.errors import UserError
from kartrl.sizing.auto import choose_sizes
from kartrl.sizing.inspection import inspect_env, remarks


def config(name: str, *overrides: str) -> Config:
    keys = [f"environment.id=awkward:awkward/{name}-v0", "model.hidden_size=16", "system.agents=2", *overrides]
    return read(overrides=keys)


def seen(group: EnvGroup, seed: int) -> list[np.ndarray]:
    """Observations and rewards of 25 steps, with the end of an episode."""
    observations = [group.reset(seed)]
    for _ in range(25):
        step = group.step(np.zeros(2, np.int64))
        observations += [step.observation, step.reward]
    group.close()
    return observations


def same(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("settings", "seeds"),
    [
        (["Ordinary"], ""),
        (["Shared"], ""),
        (["Unseeded"], "the same seed"),
        (["Unseeded", "environment.kwargs.truth=true"], "the seed 0, and no other,"),
    ],
)
def test_resets_that_ignore_their_seed_are_named(settings: Sequence[str], seeds: str) -> None:
    """The process's generators are seeded with each episode of an evaluation, so that those who use them repeat."""
    chosen = config(*settings)
    found = [re.search("two resets with (.*) began different", line) for line in remarks(chosen, inspect_env(chosen))]
    assert [match[1] for match in found if match] == [seeds] * bool(seeds)


@pytest.mark.parametrize("name", ["Ordinary", "Shared"])
def test_all_that_a_group_draws_depends_on_its_seed(name: str) -> None:
    one, again, other = (seen(make_group(config(name), 2), seed) for seed in (3, 3, 4))
    assert same(one, again)
    observations = [array for array in one if array.ndim == 2]
    assert not any(np.array_equal(a, b) for a, b in zip(observations, other, strict=False) if b.ndim == 2)
    assert all((both[0] != both[1]).all() for both in observations)


def test_an_episode_driven_twice_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "awkward")
    path = save_policy(tmp_path / "run", ["environment.id=awkward:awkward/Shared-v0", "model.hidden_size=16"])
    returns = []
    for _ in range(2):
        with open_driver(path, [], "cpu") as driver:
            place = driver.world, driver.env, driver.network, ""
            returns.append([drive(*place, greedy=False, seed=seed).episode.episodic_return for seed in (1, 2)])
    assert returns[0] == returns[1]
    assert returns[0][0] != returns[0][1]


@pytest.mark.parametrize("run_seed", [0, 4295, 2**32 - 1])
def test_seeds_of_resets_fit_into_32_bits_with_a_sign(run_seed: int) -> None:
    awkward.Strict.seeds.clear()
    make_group(config("Strict"), 3).reset(first_seed(run_seed, 12) + 2**31 - 1)
    make_env(config("Strict")).reset(seed=2**40 + 5)
    assert len(set(awkward.Strict.seeds[:3])) == 3
    assert all(0 <= seed < 2**31 for seed in awkward.Strict.seeds)


def test_an_info_reused_for_life_has_each_episodes_numbers() -> None:
    group = make_group(config("OneInfo"), 2)
    group.reset(1)
    episodes = [episode for _ in range(70) for episode in group.step(np.zeros(2, np.int64)).episodes]
    assert [(episode.agent_steps, episode.episodic_return) for episode in episodes] == [(20, 20.0)] * 6
    env = make_env(config("OneInfo"))
    env.reset()
    assert STATISTICS in [env.step(0) for _ in range(20)][-1][4]
    assert STATISTICS not in env.unwrapped.info


@pytest.mark.parametrize("name", ["BadClose", "QuitsPygame", "Exits"])
def test_a_close_that_fails_or_quits_pygame_is_no_fault(name: str) -> None:
    assert inspect_env(config(name)).most_envs == 0
    for env in (make_env(config(name)), make_env(config(name), render=True), make_group(config(name), 2)):
        env.close()


def test_a_signal_ends_the_process_within_an_environment_too() -> None:
    env = make_env(config("Exits"))
    for number in (0, 143):
        env.unwrapped.close = lambda number=number: sys.exit(number)  # type: ignore[method-assign]
        with pytest.raises(SystemExit) if number else contextlib.nullcontext():
            env.close()


@pytest.mark.parametrize("name", ["Served", "Vectorised"])
def test_processes_of_an_environment_end_with_it(name: str) -> None:
    before = set(psutil.Process().children(recursive=True))
    spec = inspect_env(config(name))
    assert spec.most_envs == 0
    left = [process for process in psutil.Process().children(recursive=True) if process not in before]
    titles = [" ".join(process.cmdline()) for process in left if process.status() != psutil.STATUS_ZOMBIE]
    assert not [title for title in titles if "environment" in title or "sleep" in title], titles


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("OldStep",), ["step returns 4 values", "shimmy.GymV21CompatibilityV0"]),
        (("Limited",), ["step returns 4 values", "shimmy.GymV21CompatibilityV0"]),
        (("OldReset",), ["reset does not return an observation and info", "shimmy.GymV21CompatibilityV0"]),
        (("NoInfo",), ["its step returned no info, which is a dict, but None"]),
        (("NoInfo", "kwargs.first=3"), ["its step returned no info, which is a dict, but None"]),
        (("NoSeed",), ["reset(self, *, seed=None, options=None)"]),
        (("ExitsOld",), ["reset(self, *, seed=None, options=None)"]),
        (("Exits", "kwargs.method=step"), ["its step ends the process by sys.exit()", "awkward.py"]),
        (("Exits", "kwargs.method=reset"), ["its reset ends the process by sys.exit()", "awkward.py"]),
        (("Reward", "kwargs.reward=[1, 2]"), ["vectors of 2 numbers", "mo_gymnasium.wrappers:LinearReward"]),
        (("Reward", "kwargs.reward=[1, 2]", "kwargs.agents=3"), ["vectors of 2 numbers", "LinearReward"]),
        (("Reward", "kwargs.reward=[1, 2]", "kwargs.agents=2"), ["may have 2 agents", "acts for the others"]),
        (("Reward", "kwargs.reward=much"), ["must be numbers", "'much'"]),
        (("Reward", "kwargs.reward=1e300"), ["a reward of 1e+300", "float32", "environment.wrapper"]),
        (("Numbers",), ["an observation of 1e+300", "float32", "environment.wrapper"]),
        (("Numbers", "kwargs.parts=true"), ["an observation of 1e+300", "float32"]),
        (("Numbers", "kwargs.first=-1e200"), ["it begins with an observation of -1e+200", "float32"]),
        (("Numbers", "kwargs.number=1e999"), ["an observation that is not finite"]),
    ],
)
def test_an_interface_that_differs_is_one_line_with_a_remedy(settings: Sequence[str], words: Sequence[str]) -> None:
    name, *more = settings
    with pytest.raises(UserError, match=f"awkward:awkward/{name}-v0") as refused:
        inspect_env(config(name, *(f"environment.{key}" for key in more)))
    assert_clear(refused.value)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_continuous_atari_game_is_one_line_with_a_remedy() -> None:
    pytest.importorskip("ale_py")
    with pytest.raises(UserError, match=r"kwargs\.continuous") as refused:
        inspect_env(read(overrides=["environment.id=ALE/Breakout-v5", "environment.kwargs.continuous=true"]))
    assert_clear(refused.value)


def test_a_reward_in_an_array_of_one_is_a_number() -> None:
    group = make_group(config("Reward", "environment.kwargs.reward=[3]"), 2)
    group.reset(1)
    assert group.step(np.zeros(2, np.int64)).reward.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("settings", "most"),
    [((), 1), (("how=exit",), 1), (("how=break",), 1), (("most=3",), 3), (("most=3", "how=break"), 3)],
)
def test_an_agent_has_as_many_environments_as_a_process_can(settings: Sequence[str], most: int) -> None:
    chosen = config("Single", *(f"environment.kwargs.{setting}" for setting in settings))
    spec = inspect_env(chosen)
    assert spec.most_envs == most
    assert any(f"can have {most} at most" in remark for remark in remarks(chosen, spec))
    sizes = choose_sizes(chosen, spec)
    assert sizes.groups_per_agent * sizes.group_size <= most
    with pytest.raises(UserError, match=r"\[system\] envs_per_agent: a process can have") as refused:
        choose_sizes(config("Single", f"system.envs_per_agent={most + 1}"), spec)
    assert_clear(refused.value)


def test_an_emulator_of_stable_retro_is_alone_in_its_process() -> None:
    pytest.importorskip("stable_retro")
    spec = inspect_env(read(overrides=["environment.id=airstriker:Airstriker-v0"]))
    assert spec.most_envs == 1
    assert "multiple emulator instances" in spec.limit


def test_a_wrapper_that_renders_works_in_training_and_films() -> None:
    render = ("environment.wrapper=gymnasium.wrappers:AddRenderObservation", "environment.kwargs.render_mode=rgb_array")
    assert inspect_env(config("Ordinary", *render)).observation.shape == (40, 60, 3)
    env = make_env(config("Ordinary", *render), render=True)
    env.reset(seed=1)
    assert (env.step(0)[0] == 10).all()
    assert (env.render() == 10).all()
    env.close()


@pytest.mark.parametrize(("library", "words"), [("mujoco", "MUJOCO_GL to egl or osmesa"), ("other", "xvfb-run -a")])
def test_missing_display_is_one_line_with_a_remedy(library: str, words: str) -> None:
    keys = (f"environment.kwargs.library={library}", "environment.kwargs.render_mode=rgb_array")
    with pytest.raises(UserError, match=words) as refused:
        inspect_env(config("NoDisplay", *keys, "environment.wrapper=gymnasium.wrappers:AddRenderObservation"))
    assert_clear(refused.value)
    env = make_env(config("NoDisplay", *keys), render=True)
    env.reset(seed=1)
    with pytest.raises(UserError, match=words):
        env.render()


@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_a_render_mode_that_is_given_is_passed_on(mode: str) -> None:
    given = f"environment.kwargs.render_mode={mode}"
    assert make_env(config("HumanMode", given)).render_mode == mode
    assert make_env(config("HumanMode", given), render=True).render_mode == "rgb_array"
    assert make_env(config("HumanMode")).render_mode is None, "no window for each environment unless it is wished for"


def test_atari_games_are_stepped_together_with_a_render_mode() -> None:
    pytest.importorskip("ale_py")
    keys = ["environment.id=ALE/Pong-v5", "environment.kwargs.render_mode=rgb_array"]
    with_mode, without = (make_group(read(overrides=keys[:number]), 2) for number in (2, 1))
    assert type(with_mode) is type(without)
    np.testing.assert_array_equal(with_mode.reset(3), without.reset(3))


def test_each_call_of_an_environment_is_a_sign_of_life() -> None:
    calls: list[int] = []
    group = make_group(config("SlowReset"), 3, lambda: calls.append(1))
    assert len(calls) == 3
    group.reset(1)
    assert len(calls) == 6
    group.step(np.zeros(3, np.int64))
    assert len(calls) == 9
    calls.clear()
    assert [*look(config("SlowReset"), lambda: calls.append(1))][-1].most_envs == 0
    assert len(calls) > 8


def test_resets_are_timed_one_by_one_before_a_run() -> None:
    slow = config("SlowReset", "environment.kwargs.seconds=2", "system.step_timeout=5")
    shown = io.StringIO()
    assert inspect_env(slow, Console(file=shown)).most_envs == 0
    assert "Making awkward:awkward/SlowReset-v0 and stepping it first" in shown.getvalue(), "which takes 8 s"


def test_a_bare_assertion_in_a_package_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's Fetch robots fail so with a newer MuJoCo; a package of the system is not the user's own code."""
    folder = tmp_path / "dist-packages"
    folder.mkdir()
    (folder / "robots.py").write_text("def check(kind):\n    assert kind in (2, 3)\n", encoding="utf-8")
    own = "from robots import check\n\n\ndef arm():\n    check(1)\n"
    for place, line in ((folder, "robots.py, line 2"), (tmp_path, "mine.py, line 5")):
        (place / "mine.py").write_text(own, encoding="utf-8")
        for path in (folder, place):
            monkeypatch.syspath_prepend(str(path))
        with pytest.raises(UserError) as error:
            inspect_env(read(overrides=["environment.id=mine:arm"]))
        assert "AssertionError: assert kind in (2, 3) (" in str(error.value)
        assert str(error.value).endswith(f"{line})")
        (place / "mine.py").unlink()
