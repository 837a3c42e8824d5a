"""The kart environment on the real emulator and the bundled ROM; a scripted driver does the driving."""

import gzip
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from kartrl.config import Config, read
from kartrl.envs import make_env
from kartrl.envs.kart import KartEnv
from kartrl.envs.retro import BUNDLED, GAMES, Console
from kartrl.errors import UserError

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")
FOLDER = GAMES / BUNDLED
CIRCUITS = json.loads((FOLDER / "circuits.json").read_text())["circuits"]
NONE, LEFT, RIGHT, LEFT_B, RIGHT_B = range(5)
START = {"section": 0, "noop": 0}
SECTION = 10 / min(circuit["sections"] for circuit in CIRCUITS.values())  # what a section is worth where a lap is worth 10


@pytest.fixture
def make() -> Iterator[Callable[..., KartEnv]]:
    """Makes the environment with these settings; closed when the test ends."""
    made: list[gymnasium.Env] = []

    def new(**settings: Any) -> KartEnv:
        made.append(gymnasium.make("kartrl/Kart-v0", **{"game": "bundled", **settings}).unwrapped)
        return made[-1]

    yield new
    for env in made:
        env.close()


def steer(env: KartEnv, info: dict, ahead: int) -> int:
    """LEFT+B or RIGHT+B towards the gate so many sections ahead of the kart's."""
    race = env._console.race()
    gates = CIRCUITS[info["circuit"]]["gates"]
    x, y, _ = gates[(race["checkpoint"] + ahead) % len(gates)]
    wanted = math.atan2(x - info["x"], info["y"] - y) / math.tau * 256
    error = (wanted - race["camera_angle"] - 4 * race["angle_velocity"] + 128) % 256 - 128
    return LEFT_B if error < 0 else RIGHT_B


def drive(env: KartEnv, steps: int, options: dict | None = None, ahead: int = 2) -> list[tuple]:
    """Steps of the scripted driver until the episode ends."""
    _, info = env.reset(seed=1, options=options or START)
    taken = []
    for _ in range(steps):
        taken.append(env.step(steer(env, info, ahead)))
        info = taken[-1][4]
        if taken[-1][2] or taken[-1][3]:
            break
    return taken


@pytest.mark.parametrize("settings", [{}, {"grayscale": False, "frame_stack": 2, "circuit": tuple(CIRCUITS)}])
def test_gymnasiums_own_check(make: Callable[..., KartEnv], settings: dict) -> None:
    check_env(make(render_mode="rgb_array", **settings))


def test_both_ways_to_make_it() -> None:
    made = 'gymnasium.make("kartrl.envs:kartrl/Kart-v0", circuit="MarioCircuit.Act2")'
    code = f'import gymnasium; print({made}.reset()[1]["circuit"])'
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == "MarioCircuit.Act2\n", result.stderr


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_a_whole_race(make: Callable[..., KartEnv], circuit: str) -> None:
    env = make(circuit=circuit, reward={"time": 0, "off_road": 0, "wall": 0, "wrong_way": 0, "finish": 0.5, "bound": 5})
    steps = drive(env, 2500)
    *_, terminated, truncated, info = steps[-1]
    assert terminated
    assert not truncated
    assert info["finished"]
    assert info["lap"] == 5
    assert len(info["lap_times"]) == 5
    assert sum(info["lap_times"]) == pytest.approx(info["race_seconds"], abs=0.1)
    assert 12 < min(info["lap_times"]) < 30
    assert info["race_seconds"] == pytest.approx(len(steps) * 4 / 60, abs=0.1)
    assert not any(step[2] or step[3] for step in steps[:-1])
    assert info["progress"] == pytest.approx(5, abs=0.05)
    assert sum(step[1] for step in steps) == pytest.approx(10 * info["progress"] + 0.5, abs=SECTION)  # the finish, and no more
    laps = [step[4]["lap"] for step in steps]
    assert laps == sorted(laps)


def test_from_any_section_the_race_is_five_rounds(make: Callable[..., KartEnv]) -> None:
    env = make()
    section = CIRCUITS["MarioCircuit.Act1"]["sections"] // 2
    steps = drive(env, 2500, {"section": section, "noop": 0})
    assert steps[-1][2]
    assert steps[-1][4]["progress"] == pytest.approx(5, abs=0.05)
    assert len(steps[-1][4]["lap_times"]) == 5


def test_reward_of_progress_and_time(make: Callable[..., KartEnv]) -> None:
    env = make(reward={"progress": 12, "time": -0.3, "off_road": 0, "wall": 0, "wrong_way": 0})
    steps = drive(env, 200)
    info = steps[-1][4]
    assert info["progress"] > 0.3
    assert sum(step[1] for step in steps) == pytest.approx(12 * info["progress"] - 0.3 * 200 * 4 / 60, abs=1.2 * SECTION)
    assert sum(step[1] > 0 for step in steps) > 100  # not only at checkpoints: nearly each step is worth something


def test_the_seeds_reward_is_one_for_each_checkpoint(make: Callable[..., KartEnv]) -> None:
    env = make(reward={"kind": "checkpoint"})
    steps = drive(env, 200)
    assert {step[1] for step in steps} == {0.0, 1.0}
    assert sum(step[1] for step in steps) == round(steps[-1][4]["progress"] * CIRCUITS["MarioCircuit.Act1"]["sections"])


def test_off_road_and_walls_cost(make: Callable[..., KartEnv]) -> None:
    """Straight on from the start leads off the road, and at last into something."""
    env = make(reward={"progress": 0, "time": 0, "off_road": -0.6, "wall": -0.25, "wrong_way": 0, "finish": 0}, no_progress_limit=40)
    env.reset(seed=1, options=START)
    off_road = collisions = 0
    for step in range(500):
        _, reward, _, _, info = env.step((LEFT_B, RIGHT_B)[step // 2 % 2])
        off = info["ground"] in env._console.game.off_road.values()
        assert reward == pytest.approx(-0.6 * 4 / 60 * off - 0.25 * info["collision"])
        off_road += off
        collisions += info["collision"]
        if off_road and collisions > 1:
            break
    assert off_road > 3
    assert collisions > 1


def test_the_wrong_way_costs_and_gains_nothing(make: Callable[..., KartEnv]) -> None:
    env = make(reward={"progress": 10, "time": 0, "off_road": 0, "wall": 0, "wrong_way": -0.3, "finish": 0}, no_progress_limit=60)
    steps = drive(env, 150, ahead=-2)
    info = steps[-1][4]
    wrong = [step for step in steps if step[4]["wrong_way"]]
    assert len(wrong) > 20
    assert all(step[1] == pytest.approx(-0.3 * 4 / 60) for step in wrong)
    furthest = info["progress"]
    sections = CIRCUITS["MarioCircuit.Act1"]["sections"]
    assert furthest <= 3 / sections  # what it rolled on while it turned round
    regained = 0.0
    for _ in range(400):  # and driving back to where it came from is no progress either
        _, reward, _, _, info = env.step(steer(env, info, 2))
        regained += max(0.0, reward)
        if info["progress"] > furthest:
            break
    assert info["progress"] > furthest
    assert regained < 2 * SECTION


def test_every_step_is_bounded(make: Callable[..., KartEnv]) -> None:
    env = make(reward={"progress": 1e6, "time": -1e3, "bound": 0.75})
    assert {step[1] for step in drive(env, 60)} <= {-0.75, 0.75}
    env.reset(seed=1, options=START)
    assert [env.step(NONE)[1] for _ in range(3)] == [-0.75] * 3


def test_truncated_without_progress(make: Callable[..., KartEnv]) -> None:
    env = make(no_progress_limit=2)
    env.reset(seed=1, options=START)
    ends = [env.step(NONE)[2:4] for _ in range(30)]
    assert ends == [(False, False)] * 29 + [(False, True)]  # 2 s are 30 steps of 4 ticks


def test_progress_puts_the_truncation_off(make: Callable[..., KartEnv]) -> None:
    env = make(no_progress_limit=2)
    steps = drive(env, 100)
    assert len(steps) == 100
    ends = [env.step(NONE)[3] for _ in range(60)]  # it rolls out, and then stands
    assert any(ends)
    assert not any(ends[:29])


def test_truncated_at_the_time_limit(make: Callable[..., KartEnv]) -> None:
    steps = drive(make(time_limit=4), 200)
    assert len(steps) == pytest.approx(60, abs=1)
    assert steps[-1][2:4] == (False, True)
    assert not steps[-1][4]["finished"]
    assert steps[-1][4]["race_seconds"] >= 4


def record(env: KartEnv, seed: int, steps: int = 60) -> list[tuple]:
    """A seeded random drive: all that the environment gives."""
    env.action_space.seed(seed)
    seen: list[tuple] = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(env.action_space.sample()))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def same(one: list[tuple], other: list[tuple]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(first[0], second[0]) and first[1:] == second[1:] for first, second in zip(one, other, strict=True)
    )


def test_a_seed_makes_everything_the_same_again(make: Callable[..., KartEnv]) -> None:
    env = make(circuit=tuple(CIRCUITS), no_progress_limit=2)
    first = record(env, 7)
    assert not same(first, record(env, 8))
    assert same(first, record(env, 7))
    env.close()
    assert same(first, record(make(circuit=tuple(CIRCUITS), no_progress_limit=2), 7))


def test_starts_differ(make: Callable[..., KartEnv]) -> None:
    env = make(circuit=tuple(CIRCUITS))
    places = set()
    for seed in range(20):
        _, info = env.reset(seed=seed)
        places.add((info["circuit"], info["x"], info["y"]))
    assert len(places) > 12
    assert len({circuit for circuit, _, _ in places}) == len(CIRCUITS)
    env = make(random_start=False)
    env.reset(seed=0)
    starts = [env.reset()[1] for _ in range(12)]
    assert len({start["race_seconds"] for start in starts}) > 4


def test_options_fix_the_start(make: Callable[..., KartEnv]) -> None:
    env = make(circuit=("MarioCircuit.Act1", "MarioCircuit.Act2"))
    options = {"circuit": "MarioCircuit.Act3", "section": 5, "noop": 3}
    starts = [env.reset(seed=seed, options=options) for seed in range(3)]
    assert same(starts, starts[:1] * 3)
    info = starts[0][1]
    assert info["circuit"] == "MarioCircuit.Act3"
    x, y, _ = CIRCUITS["MarioCircuit.Act3"]["gates"][5]
    assert abs(info["x"] - x) + abs(info["y"] - y) < 8
    assert env._console.race()["checkpoint"] == 5


def test_training_and_evaluation_begin_differently() -> None:
    config = read([], ["environment.game=bundled", "environment.noop_max=0"])

    def places(training: bool) -> set[tuple[int, int]]:
        env = make_env(config, ["MarioCircuit.Act1"], training=training)
        env.reset(seed=1)
        found = {(info["x"], info["y"]) for _, info in (env.reset() for _ in range(8))}
        env.close()
        return found

    assert len(places(True)) > 4
    assert len(places(False)) == 1


def test_make_env_follows_the_configuration() -> None:
    config = read([], ["environment.game=bundled", "environment.height=30", "environment.width=40", "environment.actions=none left+B"])
    env = make_env(config, render=True)
    assert env.observation_space.shape == (30, 40, 1)
    assert env.action_space.n == 2
    _, info = env.reset(seed=1)
    assert info["circuit"] in config.circuits("train")
    assert env.render().shape == (224, 256, 3)
    over, total = False, 0.0
    while not over:
        _, reward, terminated, truncated, info = env.step(0)
        total, over = total + reward, terminated or truncated
    assert truncated
    assert float(info["episode"]["r"]) == pytest.approx(total, abs=1e-3)
    env.close()


@pytest.mark.parametrize("skip", [2, 3, 8])
def test_ticks_in_the_rom_equal_frame_by_frame(skip: int) -> None:
    """The same buttons for N ticks in as few video frames as may be, and in N of them: the same states and pictures."""
    console = Console(FOLDER)
    pads = [console.buttons(names) for names in ([], ["LEFT"], ["LEFT", "B"], ["RIGHT", "B"], ["RIGHT", "B", "L"], ["LEFT", "Y"])]
    chosen = np.random.default_rng(skip).integers(len(pads), size=150)

    def drive() -> Iterator[tuple[dict, bytes]]:
        console.load("MarioCircuit.Act2")
        for pad in chosen:
            console.step(pads[pad], skip)
            race = console.race()
            del race["ticks"]  # the command itself
            yield race, console.screen().tobytes()

    fast = list(drive())
    console.game = console.game._replace(ticks_per_frame=1)
    console.data.set_value("ticks", 1)
    for step, (race, screen) in enumerate(drive()):
        assert race == fast[step][0], step
        assert screen == fast[step][1], step
    console.close()


def test_a_watcher_sees_every_tick_and_changes_nothing(make: Callable[..., KartEnv]) -> None:
    env = make(frame_skip=5)
    unwatched = record(env, 3, 20)
    frames: list[np.ndarray] = []
    env.on_frame = frames.append
    assert same(unwatched, record(env, 3, 20))
    noops = len(frames) - 20 * 5
    assert 1 <= noops <= 31
    assert all(frame.shape == (224, 256, 3) and frame.dtype == np.uint8 for frame in frames)
    assert np.array_equal(frames[-1], env.render())


def test_frames_beyond_what_the_rom_can_run_at_once(make: Callable[..., KartEnv]) -> None:
    env = make(frame_skip=20)
    env.reset(seed=1, options=START)
    before = env._console.race()["tick"]
    env.step(LEFT_B)
    assert env._console.race()["tick"] - before == 20


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("gray", [True, False])
def test_observations_are_what_was_asked_for(make: Callable[..., KartEnv], stack: int, gray: bool) -> None:
    env = make(height=40, width=60, frame_stack=stack, grayscale=gray, crop_top=0, crop_bottom=100)
    channels = 1 if gray else 3
    before, _ = env.reset(seed=1)
    assert before.shape == (40, 60, stack * channels)
    assert all(np.array_equal(before[..., :channels], before[..., k : k + channels]) for k in range(0, stack * channels, channels))
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
        ({"circuit": "../../etc"}, ["../../etc", *CIRCUITS]),
        ({"circuit": ("MarioCircuit.Act1", "RainbowRoad.Act1")}, ["RainbowRoad.Act1", *CIRCUITS]),
        ({"frame_skip": 0}, ["frame_skip"]),
        ({"colour": True}, ["colour"]),
        ({"game": "own"}, ["game"]),
        ({"reward": {"bound": 0}}, ["bound"]),
        ({"actions": ("none", "left+Z")}, ["Z", "LEFT"]),
    ],
)
def test_bad_settings_are_one_clear_line(make: Callable[..., KartEnv], settings: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        make(**settings).reset()
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"circuit": "Nowhere"}, "Nowhere"), ({"section": 99}, "sections 0 to"), ({"section": -1}, "sections 0 to"), ({"lap": 2}, "lap")],
)
def test_bad_options(make: Callable[..., KartEnv], options: dict, word: str) -> None:
    with pytest.raises(UserError, match=word):
        make().reset(options=options)


def test_no_circuit_to_train_on() -> None:
    config = read([], [f"levels.{circuit}=none" for circuit in Config().levels.of("train")])
    with pytest.raises(UserError, match=r"\[levels\]"):
        make_env(config)


def test_a_second_kart_in_the_process(make: Callable[..., KartEnv]) -> None:
    first, second = make(), make()
    first.reset(seed=1)
    first.step(NONE)
    second.reset(seed=1)
    second.step(NONE)
    with pytest.raises(UserError, match="one emulator in a process"):
        first.step(NONE)
    first.reset(seed=1)  # takes it back
    first.step(NONE)
    with pytest.raises(UserError, match="one emulator in a process"):
        second.step(NONE)
    second.close()
    first.step(NONE)


def test_somebody_elses_emulator(make: Callable[..., KartEnv]) -> None:
    import stable_retro

    other = stable_retro.make("Airstriker-Genesis-v0", render_mode="rgb_array")
    try:
        with pytest.raises(UserError, match="one emulator in a process"):
            make().reset()
    finally:
        other.close()


def test_step_before_reset(make: Callable[..., KartEnv]) -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        make().step(NONE)


def copied(folder: Path) -> Path:
    shutil.copytree(FOLDER, folder / BUNDLED)
    return folder / BUNDLED


def test_a_state_of_another_build_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    console = Console(folder, "MarioCircuit.Act1")
    console.data.set_value("build_id", 0xDEADBEEF)
    (folder / "MarioCircuit.Act2.state").write_bytes(gzip.compress(console.save()))
    with pytest.raises(UserError, match=r"MarioCircuit\.Act2.*another build.*deadbeef"):
        console.load("MarioCircuit.Act2")
    console.load("MarioCircuit.Act1")
    console.close()


def test_a_damaged_state_is_an_error(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "MarioCircuit.Act1.state").write_bytes(gzip.compress(b"not a state" * 1000))
    (folder / "MarioCircuit.Act2.state").write_bytes(b"not gzip")
    console = Console(folder)
    with pytest.raises(UserError, match="does not take"):
        console.load("MarioCircuit.Act1")
    with pytest.raises(UserError, match="cannot read"):
        console.load("MarioCircuit.Act2")
    console.close()


def test_a_rom_that_is_none(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "rom.sfc").write_bytes(b"")
    with pytest.raises(UserError, match=r"rom\.sfc.*cannot start"):
        Console(folder)


def test_save_and_restore() -> None:
    with_state = Console("bundled", "MarioCircuit.Act3")
    pad = with_state.buttons(["B", "LEFT"])
    with_state.step(pad, 40)
    saved = with_state.save()
    seen = []
    for _ in range(2):
        with_state.restore(saved)
        with_state.step(pad, 7)
        seen.append((with_state.race(), with_state.screen().tobytes()))
    assert seen[0] == seen[1]
    with_state.close()
    with_state.close()


def test_the_same_wrapper_drives_an_imported_cartridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., KartEnv]
) -> None:
    """Our own ROM in the cartridge's place: nothing of it but the addresses is known, and frames are skipped one by one."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    own = tmp_path / "SuperMarioKart-Snes"
    own.mkdir()
    shutil.copy(FOLDER / "rom.sfc", own)
    shutil.copy(FOLDER / "MarioCircuit.Act2.state", own)
    settings = {"circuit": "MarioCircuit.Act2", "random_start": False, "reward": {"kind": "checkpoint"}}
    expected = record(make(**settings), 4)
    env = make(game="auto", **settings)
    seen = record(env, 4)
    assert env._console.folder == own
    assert env._console.game.ticks_per_frame == 1
    assert all(np.array_equal(one[0], other[0]) and one[1:-1] == other[1:-1] for one, other in zip(seen, expected, strict=True))
    with pytest.raises(UserError, match="cannot begin at a section"):
        env.reset(options={"section": 3})
    with pytest.raises(UserError, match=r"MarioCircuit\.Act1.*MarioCircuit\.Act2"):
        make(game="cartridge")
