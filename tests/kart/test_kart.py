"""The kart environment on the real emulator and the bundled ROM; a scripted driver does the driving."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from karts import CIRCUITS, LEFT_B, NONE, RIGHT_B, SECTION, START, MakeKart, block_of, drive, record, same, steer

from kartrl.config import Config, read
from kartrl.envs import make_env, make_group
from kartrl.envs.episode import STATISTICS
from kartrl.errors import UserError
from kartrl.kart.selection import with_circuits
from kartrl.kart.world import KartWorld

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")


@pytest.mark.parametrize("settings", [{}, {"grayscale": False, "frame_stack": 2, "circuit": tuple(CIRCUITS)}])
def test_environment_passes_gymnasiums_checker(make_kart: MakeKart, settings: dict) -> None:
    check_env(make_kart(render_mode="rgb_array", **settings))


def test_environment_is_registered_with_gymnasium() -> None:
    made = 'gymnasium.make("kartrl:kartrl/Kart-v0", circuit="MarioCircuit.Act2")'
    code = f'import gymnasium; print({made}.reset()[1]["circuit"])'
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout == "MarioCircuit.Act2\n", result.stderr


@pytest.mark.parametrize("circuit", ["MarioCircuit.Act1", "BowserCastle.Act1", "KoopaBeach.Act1", "VanillaLake.Act1"])
def test_complete_race_gives_the_expected_rewards_and_info(make_kart: MakeKart, circuit: str) -> None:
    env = make_kart(
        circuit=circuit, reward={"time": 0, "off_road": 0, "wall": 0, "wrong_way": 0, "finish": 0.5, "bound": 5}
    )
    steps = drive(env, 2500)
    *_, terminated, truncated, info = steps[-1]
    assert truncated
    assert not terminated, "five laps cannot be seen: to the agent they are a time limit"
    assert info["finished"]
    assert info["lap"] == 5
    assert len(info["lap_times"]) == 5
    assert sum(info["lap_times"]) == pytest.approx(info["race_seconds"], abs=0.1)
    assert 12 < min(info["lap_times"]) < 30
    assert info["race_seconds"] == pytest.approx(len(steps) * 4 / 60, abs=0.1)
    assert not any(step[2] or step[3] for step in steps[:-1])
    assert info["progress"] == pytest.approx(5, abs=0.05)
    # progress and the finish, nothing else
    assert sum(step[1] for step in steps) == pytest.approx(10 * info["progress"] + 0.5, abs=SECTION)
    laps = [step[4]["lap"] for step in steps]
    assert laps == sorted(laps)


def test_race_from_any_section_takes_five_laps(make_kart: MakeKart) -> None:
    env = make_kart()
    section = len(block_of("MarioCircuit.Act1").gates) // 2
    steps = drive(env, 2500, {"section": section, "noop": 0})
    assert steps[-1][4]["finished"]
    assert steps[-1][4]["progress"] == pytest.approx(5, abs=0.05)
    assert len(steps[-1][4]["lap_times"]) == 5


def test_reward_of_progress_and_time(make_kart: MakeKart) -> None:
    env = make_kart(reward={"progress": 12, "time": -0.3, "off_road": 0, "wall": 0, "wrong_way": 0})
    steps = drive(env, 200)
    info = steps[-1][4]
    assert info["progress"] > 0.3
    assert sum(step[1] for step in steps) == pytest.approx(
        12 * info["progress"] - 0.3 * 200 * 4 / 60, abs=1.2 * SECTION
    )
    assert sum(step[1] > 0 for step in steps) > 100  # not only at checkpoints: nearly each step is worth something


def test_checkpoint_reward_is_one_per_section(make_kart: MakeKart) -> None:
    env = make_kart(reward={"kind": "checkpoint"})
    steps = drive(env, 200)
    assert {step[1] for step in steps} == {0.0, 1.0}
    assert sum(step[1] for step in steps) == round(steps[-1][4]["progress"] * len(block_of("MarioCircuit.Act1").gates))


def test_off_road_and_walls_are_penalised(make_kart: MakeKart) -> None:
    """Straight on from the start leads off the road, and at last into something."""
    env = make_kart(
        reward={"progress": 0, "time": 0, "off_road": -0.6, "wall": -0.25, "wrong_way": 0, "finish": 0},
        no_progress_limit=40,
    )
    env.reset(seed=1, options=START)
    off_road = collisions = 0
    for step in range(500):
        _, reward, _, _, info = env.step((LEFT_B, RIGHT_B)[step // 2 % 2])
        off = info["ground"] in env.console.game.off_road.values()
        assert reward == pytest.approx(-0.6 * 4 / 60 * off - 0.25 * info["collision"])
        off_road += off
        collisions += info["collision"]
        if off_road and collisions > 1:
            break
    assert off_road > 3
    assert collisions > 1


def test_each_coin_is_rewarded_once(make_kart: MakeKart) -> None:
    terms = dict.fromkeys(("progress", "time", "off_road", "wall", "wrong_way"), 0)
    steps = drive(make_kart(reward={**terms, "coin": 0.3, "bound": 5}), 300)
    rewards, coins = [step[1] for step in steps], [step[4]["coins"] for step in steps]
    assert coins[-1] >= 3
    assert rewards == pytest.approx([0.3 * count for count in np.diff(coins, prepend=0)])


def test_wrong_way_is_penalised_and_makes_no_progress(make_kart: MakeKart) -> None:
    env = make_kart(
        reward={"progress": 10, "time": 0, "off_road": 0, "wall": 0, "wrong_way": -0.3, "finish": 0},
        no_progress_limit=60,
    )
    steps = drive(env, 150, ahead=-2)
    info = steps[-1][4]
    wrong = [step for step in steps if step[4]["wrong_way"]]
    assert len(wrong) > 20
    assert all(step[1] == pytest.approx(-0.3 * 4 / 60) for step in wrong)
    furthest = info["progress"]
    sections = len(block_of("MarioCircuit.Act1").gates)
    assert furthest <= 3 / sections  # what it rolled on while it turned round
    regained = 0.0
    for _ in range(400):  # and driving back to where it came from is no progress either
        _, reward, _, _, info = env.step(steer(env, info, 2))
        regained += max(0.0, reward)
        if info["progress"] > furthest:
            break
    assert info["progress"] > furthest
    assert regained < 2 * SECTION


def test_reward_of_every_step_is_bounded(make_kart: MakeKart) -> None:
    env = make_kart(reward={"progress": 1e6, "time": -1e3, "bound": 0.75})
    assert {step[1] for step in drive(env, 60)} <= {-0.75, 0.75}
    env.reset(seed=1, options=START)
    assert [env.step(NONE)[1] for _ in range(3)] == [-0.75] * 3


def test_episode_is_truncated_without_progress(make_kart: MakeKart) -> None:
    env = make_kart(no_progress_limit=2)
    env.reset(seed=1, options=START)
    ends = [env.step(NONE)[2:4] for _ in range(30)]
    assert ends == [(False, False)] * 29 + [(False, True)]  # 2 s are 30 steps of 4 ticks


def test_only_the_end_of_a_stuck_kart_costs(make_kart: MakeKart) -> None:
    env = make_kart(no_progress_limit=2, reward={"time": 0, "stuck": -3, "bound": 5})
    env.reset(seed=1, options=START)
    assert [env.step(NONE)[1] for _ in range(30)] == [0] * 29 + [-3]
    timed = make_kart(time_limit=2, reward={"time": 0, "progress": 0, "stuck": -3, "bound": 5})
    assert drive(timed, 100)[-1][1:4] == (0, False, True)


def test_progress_postpones_truncation(make_kart: MakeKart) -> None:
    env = make_kart(no_progress_limit=2)
    steps = drive(env, 100)
    assert len(steps) == 100
    ends = [env.step(NONE)[3] for _ in range(60)]  # it rolls out, and then stands
    assert any(ends)
    assert not any(ends[:29])


def test_episode_is_truncated_at_the_time_limit(make_kart: MakeKart) -> None:
    steps = drive(make_kart(time_limit=4), 200)
    assert len(steps) == pytest.approx(60, abs=1)
    assert steps[-1][2:4] == (False, True)
    assert not steps[-1][4]["finished"]
    assert steps[-1][4]["race_seconds"] >= 4


def test_episodes_are_deterministic_given_a_seed(make_kart: MakeKart) -> None:
    env = make_kart(circuit=tuple(CIRCUITS), no_progress_limit=2)
    first = record(env, 7)
    assert not same(first, record(env, 8))
    assert same(first, record(env, 7))
    env.close()
    assert same(first, record(make_kart(circuit=tuple(CIRCUITS), no_progress_limit=2), 7))


def test_starts_are_random(make_kart: MakeKart) -> None:
    env = make_kart(circuit=CIRCUITS[:4])
    places = set()
    for seed in range(20):
        _, info = env.reset(seed=seed)
        places.add((info["circuit"], info["x"], info["y"]))
    assert len(places) > 12
    assert len({circuit for circuit, _, _ in places}) == 4
    env = make_kart(random_start=False)
    env.reset(seed=0)
    starts = [env.reset()[1] for _ in range(12)]
    assert len({start["race_seconds"] for start in starts}) > 4


def test_options_fix_the_start(make_kart: MakeKart) -> None:
    env = make_kart(circuit=("MarioCircuit.Act1", "MarioCircuit.Act2"))
    options = {"circuit": "MarioCircuit.Act3", "section": 5, "noop": 3}
    starts = [env.reset(seed=seed, options=options) for seed in range(3)]
    assert same(starts, starts[:1] * 3)
    info = starts[0][1]
    assert info["circuit"] == "MarioCircuit.Act3"
    x, y, _ = block_of("MarioCircuit.Act3").gates[5]
    assert abs(info["x"] - x) + abs(info["y"] - y) < 8
    assert env.console.race()["checkpoint"] == 5


def test_training_and_evaluation_begin_differently() -> None:
    config = read([], ["kart.game=bundled", "kart.noop_max=0"])

    def places(training: bool) -> set[tuple[int, int]]:
        env = make_env(config, ["MarioCircuit.Act1"], training=training)
        env.reset(seed=1)
        found = {(info["x"], info["y"]) for _, info in (env.reset() for _ in range(8))}
        env.close()
        return found

    assert len(places(True)) > 4
    assert len(places(False)) == 1


def test_make_env_follows_the_configuration() -> None:
    config = read(
        [],
        [
            "kart.game=bundled",
            "environment.height=30",
            "environment.width=40",
            "kart.actions=none left+B",
        ],
    )
    env = make_env(config, render=True)
    assert env.observation_space.shape == (30, 40, 1)
    assert env.action_space.n == 2
    _, info = env.reset(seed=1)
    assert info["circuit"] in KartWorld(with_circuits(config)).levels("train")
    assert env.render().shape == (224, 256, 3)
    over, total = False, 0.0
    while not over:
        _, reward, terminated, truncated, info = env.step(0)
        total, over = total + reward, terminated or truncated
    assert truncated
    assert float(info[STATISTICS]["r"]) == pytest.approx(total, abs=1e-3)
    env.close()


def test_on_frame_sees_every_tick_and_changes_nothing(make_kart: MakeKart) -> None:
    env = make_kart(frame_skip=5)
    unwatched = record(env, 3, 20)
    frames: list[np.ndarray] = []
    env.on_frame = frames.append
    assert same(unwatched, record(env, 3, 20))
    noops = len(frames) - 20 * 5
    assert 1 <= noops <= 31
    assert all(frame.shape == (224, 256, 3) and frame.dtype == np.uint8 for frame in frames)
    assert np.array_equal(frames[-1], env.render())


def test_rows_around_the_ground_are_drawn_only_if_they_are_used(make_kart: MakeKart) -> None:
    """Observations are the same without them; they are drawn for `render` and for observations with their rows."""
    blind, watched = make_kart(frame_skip=5), make_kart(frame_skip=5, render_mode="rgb_array")
    assert same(record(blind, 3, 40), record(watched, 3, 40))
    ground, below = watched.console.game.ground_rows
    for rows in (slice(8, ground), slice(below, 224)):
        assert not blind.console.screen(rows).any()
        assert watched.console.screen(rows).any()
    for top, bottom in ((8, ground), (below, 200)):
        assert make_kart(crop_top=top, crop_bottom=bottom).reset(seed=3)[0].any()


def test_frame_skip_beyond_the_roms_ticks_per_frame(make_kart: MakeKart) -> None:
    env = make_kart(frame_skip=20)
    env.reset(seed=1, options=START)
    before = env.console.race()["tick"]
    env.step(LEFT_B)
    assert env.console.race()["tick"] - before == 20


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("gray", [True, False])
def test_observations_follow_the_settings(make_kart: MakeKart, stack: int, gray: bool) -> None:
    env = make_kart(height=40, width=60, frame_stack=stack, grayscale=gray, crop_top=0, crop_bottom=100)
    channels = 1 if gray else 3
    before, _ = env.reset(seed=1)
    assert before.shape == (40, 60, stack * channels)
    assert all(
        np.array_equal(before[..., :channels], before[..., k : k + channels])
        for k in range(0, stack * channels, channels)
    )
    for _ in range(5):
        after, *_ = env.step(RIGHT_B)
        assert after in env.observation_space
        assert np.array_equal(after[..., :-channels], before[..., channels:])
        before = after
    assert after.std() > 10  # there is something to see


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"circuit": "MarioCircuit.Act9"}, ["MarioCircuit.Act9", *CIRCUITS]),
        ({"circuit": "nowhere/*.toml"}, ["nowhere/*.toml", "nothing there matches"]),
        ({"circuit": "nowhere/*.state"}, ["nowhere/*.state", "nothing there matches"]),
        ({"circuit": "random:3:lava"}, ["'lava'", "ice"]),
        ({"wrapper": "a:b"}, ["wrapper is unknown"]),
        ({"circuit": ("MarioCircuit.Act1", "RainbowRoad.Act2")}, ["RainbowRoad.Act2", *CIRCUITS]),
        ({"frame_skip": 0}, ["frame_skip"]),
        ({"colour": True}, ["colour"]),
        ({"game": "own"}, ["game"]),
        ({"reward": {"bound": 0}}, ["bound"]),
        ({"actions": ("none", "left+Z")}, ["Z", "LEFT"]),
    ],
)
def test_invalid_settings_are_one_line(make_kart: MakeKart, settings: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        make_kart(**settings).reset()
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"circuit": "Nowhere"}, "Nowhere"),
        ({"section": 99}, "sections 0 to"),
        ({"section": -1}, "sections 0 to"),
        ({"section": 1.5}, "section: a whole number, not 1.5"),
        ({"noop": -1}, "noop: 0 ticks or more, not -1"),
        ({"noop": "3"}, "noop: a whole number"),
        ({"lap": 2}, "lap"),
    ],
)
def test_invalid_options_are_rejected(make_kart: MakeKart, options: dict, word: str) -> None:
    with pytest.raises(UserError, match=word):
        make_kart().reset(options=options)


def test_configuration_without_a_train_circuit_is_rejected() -> None:
    config = read([], [f"levels.{key}=none" for key, use in Config().levels.uses.items() if use == "train"])
    with pytest.raises(UserError, match=r"\[levels\]"):
        make_env(config)


def test_several_karts_run_in_one_process(make_kart: MakeKart) -> None:
    first, second, alone = make_kart(), make_kart(), make_kart()
    expected = record(alone, 1)
    alone.close()
    first.action_space.seed(1)
    seen = [first.reset(seed=1)]
    second.reset(seed=2)
    for _ in range(len(expected) - 1):
        seen.append(first.step(first.action_space.sample()))
        second.step(NONE)
    assert same(seen, expected)


def test_step_before_reset_raises(make_kart: MakeKart) -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        make_kart().step(NONE)


def test_no_circuit_is_a_mistake_at_once(make_kart: MakeKart) -> None:
    with pytest.raises(UserError, match="name at least one"):
        make_kart(circuit=[])


@pytest.mark.parametrize("action", [-1, 9, 1.0, 1.7, None, np.array([1])])
def test_only_actions_of_its_space_are_taken(make_kart: MakeKart, action: object) -> None:
    env = make_kart()
    env.reset(seed=1)
    with pytest.raises(gymnasium.error.InvalidAction, match="0 to 8"):
        env.step(action)
    env.step(np.array(8))


def test_its_specification_can_be_written_down_and_made_again() -> None:
    env = make_env(read([], ["kart.game=bundled", "reward.finish=2"]))
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.unwrapped.spec.to_json())
    again = gymnasium.make(spec)
    assert again.unwrapped.spec.kwargs["reward"]["finish"] == 2
    assert again.unwrapped.action_space == env.action_space


def test_circuits_are_generated_where_they_are_asked_for(
    make_kart: MakeKart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KARTRL_CACHE", str(tmp_path))
    assert make_kart(circuit=["MarioCircuit.Act2", "random:1:ice"], random_start=False).reset(seed=0)
    names = {make_kart(circuit="random:1:ice").reset(seed=seed)[1]["circuit"] for seed in range(2)}
    assert names == {"random.ice.0000"}
    both = make_kart(circuit=["MarioCircuit.Act2", "random:1:ice"])
    for option in ("random.ice.0000", "random:1:ice", "MarioCircuit.Act2", "RainbowRoad.Act1"):
        asked = "random.ice.0000" if option.startswith("random") else option
        assert both.reset(seed=0, options={"circuit": option})[1]["circuit"] == asked
    with pytest.raises(UserError, match=r"\*\.Act1 stands for 8 circuits; name one"):
        both.reset(options={"circuit": "*.Act1"})
    for option in (5, ["MarioCircuit.Act2"], ("MarioCircuit.Act2",), b"a"):
        with pytest.raises(UserError, match=r"^circuit .*; the game has BowserCastle"):
            both.reset(options={"circuit": option})
    with pytest.raises(UserError, match="circuit '5': no such level"):
        make_kart(circuit=["MarioCircuit.Act2", 5])


def test_unknown_button_is_reported_at_each_reset(make_kart: MakeKart) -> None:
    env = make_kart(actions=["left+Q", "right"])
    for _ in range(2):
        with pytest.raises(UserError, match="Q"):
            env.reset(seed=0)


def test_a_wrapper_of_the_configuration_is_applied() -> None:
    flat = ["kart.game=bundled", "environment.wrapper=gymnasium.wrappers:FlattenObservation"]
    with pytest.raises(UserError, match="must stay uint8 images"):
        make_env(read([], flat))
    still = ["kart.noop_max=0", "kart.random_start=false"]
    env = make_env(read([], ["kart.game=bundled", "environment.wrapper=karts:Doubled", *still]))
    env.reset(seed=1)
    assert env.step(NONE)[1] == pytest.approx(2 * -0.1 * 5 / 60)
    env.close()
    env = make_env(read([], ["kart.game=bundled", "environment.wrapper=karts:Numbered", *still]))
    assert env.action_space == gymnasium.spaces.Discrete(9)
    env.reset(seed=1)
    env.step(NONE)  # which the wrapper calls 1
    env.close()


def test_images_of_a_wrapper_are_seen_as_in_other_worlds() -> None:
    seen = {}
    for wrapper in ("none", "rewrapped:scaled", "rewrapped:channels_first"):
        env = make_env(read([], ["kart.game=bundled", f"environment.wrapper={wrapper}", "kart.noop_max=0"]))
        seen[wrapper], _ = env.reset(seed=1)
        assert seen[wrapper].shape == (54, 52, 1)
        np.testing.assert_array_equal(seen[wrapper], seen["none"])
        env.close()
    with pytest.raises(UserError, match="must stay uint8 images"):
        make_env(read([], ["kart.game=bundled", "environment.wrapper=rewrapped:with_mean"]))


def test_opponents_on_request(make_kart: MakeKart) -> None:
    """They start ahead of the kart, are visible, and fall behind a good driver."""
    alone, among = make_kart(), make_kart(opponents=3)
    seen = [env.reset(seed=1, options=START) for env in (alone, among)]
    assert [info["rank"] for _, info in seen] == [1, 4]
    assert not np.array_equal(seen[0][0], seen[1][0])
    ranks = [step[4]["rank"] for step in drive(among, 600)]
    assert ranks[-1] == 1
    assert {step[4]["rank"] for step in drive(alone, 60)} == {1}


@pytest.mark.parametrize("sampling", ["episodes", "steps"])
def test_circuits_get_as_many_steps_or_as_many_episodes(make_kart: MakeKart, sampling: str) -> None:
    """On one of them each episode ends after a few steps."""
    short, long = "MarioCircuit.Act1", "MarioCircuit.Act2"
    env = make_kart(circuit=[short, long], circuit_sampling=sampling, noop_max=0)
    steps, episodes = Counter[str](), Counter[str]()
    env.reset(seed=1)
    for _ in range(40):
        _, info = env.reset()
        circuit = info["circuit"]
        for _ in range(5 if circuit == short else 20):
            env.step(NONE)
            steps[circuit] += 1
        episodes[circuit] += 1
    if sampling == "steps":
        assert abs(steps[short] - steps[long]) <= 20
        assert episodes[short] > 3 * episodes[long]
    else:
        assert steps[long] > 2 * steps[short]


def test_groups_of_circuits_get_as_many_steps(make_kart: MakeKart) -> None:
    """Also before each circuit was driven once: a hard one comes again long before the last of many others."""
    easy = [f"MarioCircuit.Act{act}" for act in (1, 2, 3, 4)]
    env = make_kart(circuit=[*easy, "VanillaLake.Act1"], circuit_sampling="steps", noop_max=0)
    env.reset(seed=1)
    for _ in range(7):
        _, info = env.reset()
        for _ in range(20 if info["circuit"] in easy else 5):
            env.step(NONE)
    assert abs(sum(env.steps[name] for name in easy) - env.steps["VanillaLake.Act1"]) <= 20
    assert max(env.steps[name] for name in easy) <= 20


def test_group_environments_share_the_steps_on_circuits() -> None:
    config = read([], ["kart.game=bundled", "kart.circuit_sampling=steps", "levels.*=train"])
    group = make_group(config, 3)
    group.reset(1)
    for _ in range(4):
        group.step(np.zeros(3, np.int64))
    counts = [env.unwrapped.steps for env in group.envs]
    assert counts[0] is counts[1] is counts[2]
    assert sum(counts[0].values()) == 12
    group.close()
