"""The small environments that come along: Snake and CartPole without velocities."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import kartrl.envs  # noqa: F401  # registers them
from kartrl.config import read
from kartrl.envs import make_env
from kartrl.envs.episode import STATISTICS
from kartrl.envs.worlds import load_world
from kartrl.sizing.inspection import inspect_env

UP, RIGHT, DOWN, LEFT = range(4)
WHITE, RED, GREEN = (255, 255, 255), (255, 60, 60), 1


@pytest.mark.parametrize("name", ["kartrl/Snake-v0", "kartrl/MaskedCartPole-v1"])
@pytest.mark.filterwarnings("ignore:.*not within the observation space|.*recommended")
def test_gymnasium_has_nothing_against_it(name):
    check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


def snake(**settings):
    env = gymnasium.make("kartrl/Snake-v0", **settings).unwrapped
    env.reset(seed=4)
    return env


def cells(picture, colour):
    return {(int(row), int(column)) for row, column in np.argwhere((picture == colour).all(2))}


def put_food(env, *places):
    env.food = set(places)


def test_a_board_of_15_cells_shows_a_head_a_body_and_two_foods():
    picture = snake()._look()
    assert picture.shape == (17, 17, 3)
    assert cells(picture, WHITE) == {(8, 8)}
    assert len(cells(picture, RED)) == 2
    greens = [picture[8, 7].tolist(), picture[8, 6].tolist()]
    assert greens[0][1] > greens[1][1] > 0, "which end is the tail can be seen"
    assert (picture[[0, -1]] == picture[0, 0]).all()
    assert (picture[:, [0, -1]] == picture[0, 0]).all()


def test_a_snake_that_eats_grows_and_another_food_appears():
    env = snake()
    put_food(env, (7, 8), (0, 0))
    _, reward, terminated, truncated, info = env.step(RIGHT)
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"foods": 1})
    assert list(env.body) == [(7, 8), (7, 7), (7, 6), (7, 5)]
    assert len(env.food) == 2
    assert not env.food & set(env.body)
    put_food(env, (0, 0), (0, 1))
    assert env.step(UP)[1] == 0.0
    assert list(env.body) == [(6, 8), (7, 8), (7, 7), (7, 6)]


def test_snake_dies_at_walls_and_body_but_not_at_its_tail():
    env = snake()
    put_food(env, (0, 0), (0, 1))
    steps = [env.step(RIGHT)[1:4] for _ in range(8)]
    assert steps == [(0.0, False, False)] * 7 + [(-1.0, True, False)]

    env = snake()
    env.body.extend([(7, 4), (7, 3)])
    assert [env.step(action)[2] for action in (UP, LEFT, DOWN)] == [False, False, True], "into its own body"

    env = snake()
    env.body.append((7, 4))
    assert [env.step(action)[2] for action in (UP, LEFT, DOWN)] == [False] * 3, "where its tail was, which has moved on"


def test_the_way_straight_back_is_not_taken():
    env = snake()
    put_food(env, (0, 0), (0, 1))
    env.step(LEFT)
    assert env.body[0] == (7, 8)


def test_snake_without_food_is_truncated():
    env = snake(size=5, foods=1)
    put_food(env, (4, 4))
    ends = [env.step(action)[2:4] for action in [UP, LEFT, DOWN, RIGHT] * 7]
    assert ends.index((False, True)) == 24, "after as many steps as there are cells"


def test_a_full_board_ends_the_game():
    env = snake(size=4, foods=1)
    way = [(row, column if row % 2 == 0 else 3 - column) for row in range(4) for column in range(4)]
    env.body.clear()
    env.body.extend(reversed(way[:-1]))
    env.move = (0, -1)
    put_food(env, way[-1])
    _, reward, terminated, truncated, _ = env.step(LEFT)
    assert (reward, terminated, truncated) == (1.0, False, True)
    assert len(env.body) == 16


def test_same_seed_is_same_game_and_small_boards_are_refused():
    one, other = snake(), snake()
    for action in np.random.default_rng(0).integers(0, 4, 30):
        mine, its = one.step(action), other.step(action)
        np.testing.assert_array_equal(mine[0], its[0])
        if mine[2]:
            break
    with pytest.raises(ValueError, match="size must be at least 4"):
        snake(size=3)


def test_the_agent_sees_a_cell_as_a_pixel():
    env = make_env(read(["snake"]))
    np.testing.assert_array_equal(env.reset(seed=4)[0], snake()._look())


def test_masked_cartpole_is_cartpole_without_velocities():
    masked, whole = gymnasium.make("kartrl/MaskedCartPole-v1"), gymnasium.make("CartPole-v1")
    np.testing.assert_array_equal(masked.reset(seed=3)[0], whole.reset(seed=3)[0][[0, 2]])
    for action in (0, 1, 1, 0):
        mine, its = masked.step(action), whole.step(action)
        np.testing.assert_array_equal(mine[0], its[0][[0, 2]])
        assert mine[1:4] == its[1:4]
    assert masked.spec.max_episode_steps == whole.spec.max_episode_steps


def test_car_racing_is_gymnasiums_with_actions_held():
    pytest.importorskip("Box2D")
    from kartrl.envs.games.car_racing import ACTIONS

    ours, theirs = gymnasium.make("kartrl/CarRacing-v3"), gymnasium.make("CarRacing-v3")
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    random = np.random.default_rng(1)
    ended = cut = False
    while not (ended or cut):
        action = int(random.integers(len(ACTIONS)))
        picture, reward, terminated, truncated, _ = ours.step(action)
        total = 0.0
        for _ in range(4):
            other, value, ended, cut, _ = theirs.step([*ACTIONS.values()][action])
            total += value
            if ended or cut:
                break
        np.testing.assert_array_equal(picture, other)
        assert (reward, terminated, truncated) == (pytest.approx(total), ended, cut)
    ours.close()
    theirs.close()


def test_leaving_the_road_ends_the_learners_episode_alone():
    pytest.importorskip("Box2D")
    from kartrl.envs.games.car_racing import ACTIONS

    world = load_world(read(["car_racing"]))
    learners, whole = world.open_env(training=True), world.open_env(training=False)
    straight = [*ACTIONS].index("straight, half gas")
    learners.reset(seed=3)
    whole.reset(seed=3)
    total, steps, ends, info = 0.0, 0, [], {}
    while STATISTICS not in info:
        _, reward, terminated, truncated, info = learners.step(straight)
        _, other, *over, others = whole.step(straight)
        total, steps = total + other, steps + 1
        assert (reward, truncated) == (other, over[1])
        if terminated and STATISTICS not in info:
            ends.append(steps)
            assert not any(wheel.tiles for wheel in learners.unwrapped.car.wheels)
            learners.reset()  # lets time pass without a pedal, as the other must
            total += whole.step(learners.unwrapped.noop)[1]
    assert ends
    assert any(over)
    assert info[STATISTICS] == others[STATISTICS]
    assert info[STATISTICS]["r"] == pytest.approx(total)
    ignoring = load_world(read(["car_racing"], ["environment.life_loss_ends=false"])).open_env(training=True)
    ignoring.reset(seed=3)
    assert not any(ignoring.step(straight)[2] for _ in range(ends[0]))
    for env in (learners, whole, ignoring):
        env.close()


def test_car_racing_mirrored_actions_steer_the_other_way():
    pytest.importorskip("Box2D")
    from kartrl.envs.games.car_racing import ACTIONS

    mirrored = inspect_env(read(["car_racing"])).mirrored
    values = [*ACTIONS.values()]
    assert len(mirrored) == len(values)
    for own, other in enumerate(mirrored):
        np.testing.assert_array_equal(values[other], values[own] * [-1, 1, 1])
