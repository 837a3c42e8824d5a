"""Progress and reward: pure functions against slow independent references."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kartrl.config import Config
from kartrl.envs.episode import STATISTICS
from kartrl.kart.game import load_game
from kartrl.kart.game_files import GAMES
from kartrl.kart.progress import Course, LapTimes, Progress, race_seconds
from kartrl.kart.reward import RaceStep, reward_parts, step_reward
from kartrl.kart.settings import Reward
from kartrl.kart.world import KartWorld


def walked(sections: int, start: int, end: int) -> int:
    """Steps between neighbouring sections from start to end, two walkers going round opposite ways; > 0 is forward."""
    ahead = behind = start
    for steps in range(sections):
        if behind == end:
            return -steps
        if ahead == end:
            return steps
        ahead = ahead + 1 if ahead + 1 < sections else 0
        behind = behind - 1 if behind > 0 else sections - 1
    raise AssertionError("not on the circuit")


@given(
    st.integers(2, 64).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=1, max_size=60))
    )
)
def test_progress_matches_reference(drive: tuple[int, list[int]]) -> None:
    sections, seen = drive
    progress = Progress(sections, seen[0])
    positions = [0]
    for before, after in pairwise(seen):
        positions.append(positions[-1] + walked(sections, before, after))
        gained, advanced = progress.update(after)
        assert gained == advanced
        assert progress.position == positions[-1]
        assert progress.best == max(positions)
        assert gained == max(positions) - max(positions[:-1])
    assert progress.laps == max(positions) / sections


@given(
    sections=st.integers(5, 64),
    start=st.integers(0, 63),
    moves=st.lists(st.integers(-2, 2), max_size=300),
)
def test_progress_counts_the_unwrapped_distance(sections: int, start: int, moves: list[int]) -> None:
    """However often the ring is gone round, either way and from wherever: the unwrapped distance is what counts."""
    progress = Progress(sections, start % sections)
    where = total = 0
    for move in moves:
        where += move
        total += progress.update((start + where) % sections)[0]
    furthest = max(sum(moves[:count]) for count in range(len(moves) + 1))
    assert progress.position == where
    assert progress.best == total == furthest


def test_back_and_forth_makes_no_progress_and_laps_are_counted() -> None:
    progress = Progress(30, 28)  # the cartridge's checkpoint does not begin at 0
    assert sum(progress.update(section)[0] for section in (29, 0, 1)) == 3
    assert [progress.update(section) for section in (0, 29, 28, 27, 28, 29, 0, 1, 0, 1)] == [(0, 0)] * 10
    assert progress.update(2) == (1, 1)
    assert sum(progress.update(section)[0] for section in [*range(3, 30), *range(3)]) == 30
    assert progress.laps == 34 / 30


@given(st.lists(st.tuples(st.integers(-2, 2), st.floats(-0.5, 0.5)), min_size=1, max_size=100))
def test_fractions_of_sections_are_rewarded_once(moves: list[tuple[int, float]]) -> None:
    where, total = 0, 0.0
    progress = Progress(20, 7, 0.25)
    furthest = [0.25]
    for move, offset in moves:
        where += move
        _, advanced = progress.update((7 + where) % 20, offset)
        assert advanced >= 0
        total += advanced
        furthest.append(where + offset)
    assert total == pytest.approx(max(furthest) - 0.25)


def test_offset_on_a_square_course() -> None:
    """A square of 100 pixels, a gate at each corner: north-east, south-east, south-west, north-west."""
    course = Course([(100, 0), (100, 100), (0, 100), (0, 0)])
    assert course.offset(0, 100, 0) == 0
    assert course.offset(0, 100, 30) == pytest.approx(0.3)
    assert course.offset(0, 130, 30) == pytest.approx(0.3)  # beside the road is no further
    assert course.offset(0, 80, -10) == pytest.approx(-0.2)
    assert course.offset(3, 20, 0) == pytest.approx(0.2)  # towards the first gate again
    assert course.offset(1, 10, 900) == 0.5
    assert course.offset(1, 300, 0) == -0.5
    assert course.offset(1, 130, 130) == 0  # outside the bend


gates = st.lists(st.tuples(st.integers(0, 1023), st.integers(0, 1023)), min_size=2, max_size=50)


@given(gates, st.integers(0, 49), st.integers(0, 1023), st.integers(0, 1023))
def test_offset_is_at_most_half_a_section(course: list[tuple[int, int]], section: int, x: int, y: int) -> None:
    assert -0.5 <= Course(course).offset(section % len(course), x, y) <= 0.5


NOTHING = RaceStep(
    seconds=4 / 60,
    gained=0,
    advanced=0.0,
    sections=48,
    off_road=False,
    hit=False,
    wrong_way=False,
    coins=0,
    finished=False,
    stuck=False,
)


@pytest.mark.parametrize(
    ("step", "worth"),
    [
        ({}, -0.1 * 4 / 60),
        ({"gained": 1, "advanced": 1.5}, 10 * 1.5 / 48 - 0.1 * 4 / 60),
        ({"off_road": True}, -0.3 * 4 / 60),
        ({"wrong_way": True}, -0.3 * 4 / 60),
        ({"hit": True}, -0.2 - 0.1 * 4 / 60),
        ({"finished": True}, 1 - 0.1 * 4 / 60),
        ({"advanced": 1.0, "finished": True}, 1.0),
        ({"coins": 2}, 0.6 - 0.1 * 4 / 60),
        ({"coins": -2}, -0.6 - 0.1 * 4 / 60),
        ({"stuck": True}, -0.5 - 0.1 * 4 / 60),
    ],
)
def test_each_reward_term(step: dict, worth: float) -> None:
    reward = Reward(progress=10, time=-0.1, off_road=-0.2, wall=-0.2, wrong_way=-0.2, coin=0.3, finish=1.0, stuck=-0.5)
    assert step_reward(reward, reward_parts(reward, NOTHING._replace(**step))) == pytest.approx(worth)


def test_checkpoint_reward_counts_sections_only() -> None:
    reward = Reward(kind="checkpoint", bound=2)
    everything = NOTHING._replace(advanced=0.7, off_road=True, hit=True, wrong_way=True, finished=True)
    assert [step_reward(reward, reward_parts(reward, everything._replace(gained=gained))) for gained in range(4)] == [
        0,
        1,
        2,
        2,
    ]


terms = st.floats(-1e6, 1e6)


@given(
    reward=st.builds(
        Reward,
        kind=st.sampled_from(["shaped", "checkpoint"]),
        **dict.fromkeys(("progress", "time", "off_road", "wall", "wrong_way", "coin", "finish", "stuck"), terms),
        bound=st.floats(1e-3, 1e3),
    ),
    step=st.builds(
        RaceStep,
        seconds=st.floats(1 / 60, 1),
        gained=st.integers(0, 64),
        advanced=st.floats(0, 64),
        sections=st.integers(1, 64),
        off_road=st.booleans(),
        hit=st.booleans(),
        wrong_way=st.booleans(),
        coins=st.integers(-10, 10),
        finished=st.booleans(),
        stuck=st.booleans(),
    ),
)
def test_reward_is_clipped(reward: Reward, step: RaceStep) -> None:
    assert -reward.bound <= step_reward(reward, reward_parts(reward, step)) <= reward.bound


def test_race_clock_in_seconds() -> None:
    assert race_seconds({"minutes": 1, "seconds": 23, "milliseconds": 45}) == pytest.approx(83.45)


def test_constants_of_each_game() -> None:
    for name in ("KartRL-Snes", "SuperMarioKart-Snes"):
        game = load_game(GAMES / name / "game.json")
        assert game.laps == 5
        assert game.ground(64) == "road"
        assert 84 in game.off_road
        assert not set(game.road) & set(game.off_road)
        assert game.ground(255) == "ground 255"


def test_race_time_and_screen_clock_are_distinguished():
    world = KartWorld(Config())
    info = {
        "progress": 5.0,
        "lap_times": (20.0, 19.0, 19.0, 19.0, 19.0),
        "race_seconds": 96.45,
        "finished": True,
        "circuit": "MarioCircuit.Act1",
        STATISTICS: {"l": 1000, "r": 50.0},
        "rank": 1,
    }
    headings, row = world.list_episodes([world.make_episode(info, finished=True)])
    shown = dict(zip(headings, row, strict=True))
    assert (shown["total"], shown["clock on screen"]) == ("96.00 s", "96.45 s")
    assert world.trace({"x": 1, "y": 2, "speed": 768}) == (1, 2, 120), "in km/h, as the game's panel shows it"


GAME = load_game(GAMES / "KartRL-Snes" / "game.json")


def race_at(lap: int, seconds: int, **more: int) -> dict[str, int]:
    return {"lap": lap + GAME.lap_zero, "minutes": 0, "seconds": seconds, "milliseconds": 0, **more}


def test_laps_are_timed_from_a_start_in_any_of_them() -> None:
    laps = LapTimes(GAME, race_at(2, 40))
    for lap, seconds in ((2, 50), (3, 60), (3, 61), (4, 75), (5, 95)):
        laps.update(race_at(lap, seconds))
    assert (laps.before, laps.seconds, laps.lap) == (2, (20.0, 15.0, 20.0), 5)
    laps.update(race_at(0, 0))
    assert (laps.before, laps.seconds, laps.lap) == (0, (), 1), "a new race"
    laps.update(race_at(1, 18))
    assert laps.seconds == (18.0,)
    assert laps.elapsed(race_at(1, 20)) == 2.0


def test_laps_have_the_times_of_the_game_if_it_measures_them() -> None:
    laps = LapTimes(GAME, race_at(0, 0, last_lap=0))
    laps.update(race_at(1, 18, last_lap=1048))
    assert laps.seconds == (17.47,)
