"""Observation and action spaces of every kind: the network's input, the environment's actions, and rejected spaces."""

import json
from collections.abc import Sequence
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest
import spaces_zoo
from gymnasium import spaces
from gymnasium.spaces.utils import flatten
from gymnasium.utils.env_checker import check_env

from kartrl.config import Config, read
from kartrl.envs import make_env, make_group
from kartrl.envs.registered import atari_spec, make_registered
from kartrl.envs.spec import ActionSpec, Continuous
from kartrl.envs.world import World
from kartrl.errors import UserError
from kartrl.sizing.inspection import inspect_env, remarks

TOY_TEXT = {"FrozenLake-v1": 16, "Taxi-v4": 500, "CliffWalking-v1": 48, "Blackjack-v1": 32 + 11 + 2}


def config(name: str, *overrides: str) -> Config:
    return read([], [f"environment.id={name}", *overrides])


def zoo(name: str, *overrides: str) -> Config:
    return config(f"spaces_zoo:{name}-v0", *overrides)


def begun(configuration: Config) -> tuple[gymnasium.Env, np.ndarray]:
    """The environment and its first observation, which lies in its space."""
    env = make_env(configuration)
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    return env, observation


def refusal(configuration: Config) -> str:
    with pytest.raises(UserError) as caught:
        make_env(configuration)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 420
    assert configuration.environment.id in text
    return text


def as_shown(name: str, height: int, width: int, *overrides: str) -> tuple[np.ndarray, np.ndarray]:
    """What the environment showed and what the network sees of it, at the image's own size and in colour."""
    size = f"environment.height={height}", f"environment.width={width}"
    env, observation = begun(zoo(name, *size, "environment.grayscale=false", *overrides))
    assert observation.dtype == np.uint8
    return env.unwrapped.shown, observation


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("ChannelsFirst", (84, 84, 4)),
        ("ColourFirst", (60, 40, 3)),
        ("ManyFirst", (84, 84, 16)),
        ("OddFirst", (90, 60, 7)),
        ("DeepFirst", (32, 32, 70)),
    ],
)
def test_images_with_channels_first_are_transposed(name: str, shape: tuple[int, int, int]) -> None:
    shown, observation = as_shown(name, *shape[:2])
    assert observation.shape == shape
    np.testing.assert_array_equal(observation, shown.transpose(1, 2, 0))


@pytest.mark.parametrize("name", ["ChannelsLast", "ManyLast", "Cube"])
def test_images_with_channels_last_stay(name: str) -> None:
    shape = spaces_zoo.IMAGES[name].shape
    shown, observation = as_shown(name, *shape[:2])
    np.testing.assert_array_equal(observation, shown)


@pytest.mark.parametrize("name", ["ChannelsLast", "ColourFirst", "Unit"])
def test_grey_has_the_weights_of_gymnasiums_wrapper(name: str) -> None:
    """Those of ITU-R BT.709, rounded down."""
    shape = {"ColourFirst": (60, 40)}.get(name, spaces_zoo.IMAGES[name].shape[:2])
    shown, observation = as_shown(name, *shape, "environment.grayscale=true")
    image = shown.transpose(1, 2, 0) if name == "ColourFirst" else shown * (255 if name == "Unit" else 1)
    exact = np.rint(image) @ [0.2125, 0.7154, 0.0721]
    assert observation.shape == (*shape, 1)
    np.testing.assert_allclose(observation[..., 0], exact - 0.5, atol=0.51)


def test_images_of_many_channels_are_reduced_channel_by_channel() -> None:
    """OpenCV reduces four at most."""
    env, observation = begun(zoo("ManyFirst", "environment.height=54", "environment.width=52"))
    assert observation.shape == (54, 52, 16)
    for channel, image in enumerate(env.unwrapped.shown):
        np.testing.assert_array_equal(
            observation[..., channel], cv2.resize(image, (52, 54), interpolation=cv2.INTER_AREA)
        )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("Unit", 0, 1),
        ("UnitGrey", 0, 1),
        ("FloatBytes", 0, 255),
        ("Signed", -1, 1),
        ("Cells", 0, 9),
        ("Binary", 0, 1),
        ("Flags", 0, 1),
        ("Below255", 0, 254),
        ("Uneven", 0, np.array([1, 20])),
    ],
)
def test_images_of_other_numbers_become_bytes(name: str, low: float, high: float | np.ndarray) -> None:
    space = spaces_zoo.IMAGES[name]
    shown, observation = as_shown(name, *space.shape[:2])
    exact = (shown.astype(np.float64) - low) / (np.asarray(high) - low) * 255
    np.testing.assert_allclose(observation.reshape(shown.shape), exact, atol=0.5001)
    if space.dtype.kind in "iub":
        assert len(np.unique(observation)) == len(np.unique(shown)), "integers stay apart"


def test_float_images_may_have_their_channels_first_too() -> None:
    shown, observation = as_shown("UnitFirst", 60, 60)
    np.testing.assert_allclose(observation, shown.transpose(1, 2, 0) * 255, atol=0.5001)


def test_a_float_image_that_is_not_finite_breaks_the_episode_off() -> None:
    group = make_group(zoo("BrokenUnit"), 2)
    first = group.reset(seed=1)
    seen = [group.step(np.array([0, 1])) for _ in range(4)]
    assert [step.faulty.tolist() for step in seen] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert seen[2].truncated.all()
    assert not seen[2].observation.any()
    assert seen[2].observation.shape == first.shape
    assert seen[2].observation.dtype == np.uint8
    assert not any(step.episodes for step in seen)
    assert (seen[3].reward == 0).all(), "this step only began the next episode"
    group.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Cuboid", ["(20, 24, 16)", "first or the last", "TransformObservation"]),
        ("Film", ["(4, 84, 84, 3)", "two or three dimensions"]),
        ("FloatFilm", ["(4, 84, 84, 3)", "two or three dimensions"]),
        ("Endless", ["-inf", "bounds", "0 to 255"]),
        ("WholeImage", ["2147483647", "65535"]),
        ("LargestFloat", ["e+38", "65535"]),
        ("Words", ["Text", "Discrete"]),
        ("Series", ["Sequence", "at 1", "Tuple"]),
        ("Huge", ["Discrete(1000000)", "65536"]),
        ("Empty", ["0 numbers"]),
    ],
)
def test_observations_that_are_refused_are_one_clear_line(name: str, words: list[str]) -> None:
    text = refusal(zoo(name))
    assert "observations" in text
    assert all(word in text for word in words), text


def test_bytes_of_memory_lie_between_0_and_1() -> None:
    env, observation = begun(zoo("Memory"))
    assert observation.dtype == np.float32
    np.testing.assert_allclose(observation, env.unwrapped.shown / 255, rtol=1e-6)


def test_the_memory_of_an_atari_game_lies_between_0_and_1() -> None:
    pytest.importorskip("ale_py")
    env, observation = begun(config("spaces_zoo:PongMemory-v0"))
    assert observation.shape == (128,)
    assert observation.dtype == np.float32
    env.step(2)
    observation, *_ = env.step(2)
    np.testing.assert_allclose(observation, env.unwrapped.ale.getRAM() / 255, rtol=1e-6)
    env.close()
    assert atari_spec(config("PongMemory-v0").environment) is None, (
        "registered by now, and not to be taken for a game on the screen"
    )


@pytest.mark.parametrize(
    ("name", "factor"),
    [("Percent", 0.01), ("Counts", 1), ("Bounded", 1), ("Unbounded", 1), ("Scalar", 1), ("Table", 1)],
)
def test_only_bounded_integers_are_scaled(name: str, factor: float) -> None:
    env, observation = begun(zoo(name))
    assert observation.dtype == np.float32
    np.testing.assert_allclose(observation, np.ravel(env.unwrapped.shown) * factor, rtol=1e-6)


def test_small_arrays_are_tables_and_not_resized() -> None:
    env, observation = begun(zoo("Board"))
    np.testing.assert_allclose(observation, env.unwrapped.shown.ravel() / 2, rtol=1e-6)


def test_large_tables_without_an_images_bounds_are_vectors() -> None:
    env, observation = begun(zoo("Window"))
    np.testing.assert_array_equal(observation, env.unwrapped.shown.ravel())


def test_symbols_that_cannot_be_pixels_are_not_resized() -> None:
    """As NetHack's colours are, uint8 from 0 to 15: between two of them is nothing."""
    env, observation = begun(zoo("Symbols"))
    np.testing.assert_allclose(observation, env.unwrapped.shown.ravel() / 15, rtol=1e-6)


@pytest.mark.parametrize("name", ["One", "From", "Several", "Switches", "Pair"])
def test_discrete_observations_are_one_hot(name: str) -> None:
    env, observation = begun(zoo(name))
    assert observation.dtype == np.float32
    np.testing.assert_array_equal(observation, flatten(env.unwrapped.observation_space, env.unwrapped.shown))


def test_each_part_of_a_dict_is_turned_by_its_own_rule() -> None:
    env, observation = begun(zoo("Parts"))
    shown = env.unwrapped.shown
    kind = np.eye(3)[shown["inner"]["kind"] - 1]
    parts = {"inner": np.concatenate([shown["inner"]["flags"], kind]), "memory": shown["memory"] / 255}
    np.testing.assert_allclose(observation, np.concatenate([*parts.values(), shown["position"]]), rtol=1e-6)


def test_words_among_the_parts_of_a_dict_are_left_out_and_named() -> None:
    configuration = zoo("Mission")
    env, observation = begun(configuration)
    shown = env.unwrapped.shown
    expected = [np.eye(4)[shown["direction"]], shown["image"].ravel() / 255]
    np.testing.assert_allclose(observation, np.concatenate(expected), rtol=1e-6)
    assert "does not see mission" in remarks(configuration, inspect_env(configuration))[0]


def test_parts_that_use_little_of_their_range_are_named() -> None:
    """Scaled by the range that MiniGrid declares, its cells would be 0.04 at most, and what they are is hardly seen."""
    keys = "Mission", "environment.wrapper=spaces_zoo:Cells"
    cells = zoo(*keys)
    spec = inspect_env(cells)
    assert spec.faint == ("image (at most 10 of 255)",)
    assert "image (at most 10 of 255), so that the network hardly sees it: set model.norm" in remarks(cells, spec)[1]
    assert len(remarks(zoo(*keys, "model.normalise_observations=true"), spec)) == 1, "which helps"
    assert not inspect_env(zoo("Mission")).faint


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ("cells", ["observations"]),
        ("bright", []),
        ("all", ["cells", "counts"]),
    ],
)
def test_images_that_use_little_of_their_range_are_named(parts: str, found: list[str]) -> None:
    """A grid of MiniGrid with sides of 16 cells or more is an image, of which the largest number is 10."""
    keys = "environment.wrapper=spaces_zoo:cells_and_counts", f"environment.observation_parts={parts}"
    assert inspect_env(zoo("ChannelsLast", *keys)).faint == tuple(f"{name} (at most 10 of 255)" for name in found)


def test_large_numbers_are_named() -> None:
    """From CartPole in pixels, as gym-pusht's observations are, a policy loses its entropy and learns nothing."""
    pixels = "CartPole-v1", "environment.wrapper=spaces_zoo:in_pixels"
    spec = inspect_env(config(*pixels))
    (line,) = remarks(config(*pixels), spec)
    assert "large numbers are in observations (up to " in line
    assert not remarks(config(*pixels, "model.normalise_observations=true"), spec)
    assert not inspect_env(config("CartPole-v1")).large
    assert not inspect_env(zoo("Mission")).large, "which are scaled"


@pytest.mark.parametrize(
    ("keys", "clipped"),
    [
        (("algorithm.reward_transform=clip",), -1),
        (("algorithm.reward_transform=sign", "algorithm.reward_scale=0.01"), -1),
        (("algorithm.reward_transform=clip", "algorithm.reward_scale=0.1"), None),
        ((), None),
    ],
)
def test_rewards_that_become_equal_are_named(keys: Sequence[str], clipped: int | None) -> None:
    """As in Skiing, whose steps cost 6 or 7 points."""
    timed = config("CartPole-v1", "environment.wrapper=spaces_zoo:timed", *keys)
    lines = remarks(timed, inspect_env(timed))
    assert [f"from -7 to -6 are all clipped to {clipped}, so that" in line for line in lines] == [True] * bool(clipped)


def test_wrappers_with_statistics_of_their_own_are_named() -> None:
    wrapped = config("CartPole-v1", "environment.wrapper=gymnasium.wrappers:NormalizeObservation")
    (line,) = remarks(wrapped, inspect_env(wrapped))
    assert "no checkpoint holds them: set model.normalise_observations=true" in line


def test_mirrored_action_pairs_are_not_reported_as_ignored() -> None:
    keys = "mirrored_actions=0 1 3 2 5 4", "action_bounds=-1 1", "kwargs.sound_obs=true"
    configuration = config("ALE/Pong-v5", *(f"environment.{key}" for key in keys))
    (said,) = remarks(configuration, inspect_env(configuration))
    ignored = "environment.kwargs.sound_obs, environment.action_bounds"
    assert said == f"ALE/Pong-v5 ignores {ignored}: setting them has no effect"


@pytest.mark.parametrize("name", TOY_TEXT)
def test_gymnasiums_toy_text_is_one_hot(name: str) -> None:
    group = make_group(config(name), 2)
    first = group.reset(seed=3)
    assert first.shape == (2, TOY_TEXT[name])
    assert first.dtype == np.float32
    marks = 3 if name == "Blackjack-v1" else 1
    for _ in range(20):
        observation = group.step(np.array([0, 1])).observation
        assert np.isin(observation, (0, 1)).all()
        assert (observation.sum(1) == marks).all()
    group.close()


def test_continuous_actions_are_clipped_at_the_environment() -> None:
    group, single = make_group(config("Pendulum-v1"), 2), gymnasium.make("Pendulum-v1")
    group.reset(seed=4)
    single.reset(seed=4)
    action = np.array([[7.0], [-0.5]], np.float32)
    for _ in range(5):
        step = group.step(action)
        observation, reward, *_ = single.step(np.array([2.0], np.float32))
        np.testing.assert_array_equal(step.observation[0], observation)
        assert step.reward[0] == np.float32(reward)
    np.testing.assert_array_equal(action, [[7.0], [-0.5]], "the caller's own stay as they are")
    group.close()


def test_continuous_actions_lie_in_the_environments_own_space() -> None:
    """Its bound of 0.1 in float64 is less than 0.1 in float32."""
    env, _ = begun(zoo("Steer"))
    env.step(np.array([-2.0, 0.1], np.float32))
    env.step(np.array([0.25, 0.05], np.float32))
    assert all(action in env.unwrapped.action_space for action in env.unwrapped.taken)
    np.testing.assert_allclose(env.unwrapped.taken, [[-1, 0.1], [0.25, 0.05]])
    assert ActionSpec.of(env.action_space) == ActionSpec((Continuous((-1.0, 0.0), (1.0, 0.1)),))


def test_actions_that_do_not_count_from_0_are_shifted() -> None:
    group = make_group(zoo("Shifted"), 3)
    env, _ = begun(zoo("Shifted"))
    assert env.action_space == spaces.Discrete(3)
    for action in range(3):
        env.step(action)
    assert env.unwrapped.taken == [5, 6, 7]
    group.reset(seed=1)
    group.step(np.arange(3))
    group.close()


@pytest.mark.parametrize(
    ("name", "row", "taken", "title"),
    [
        ("Two", [1, 2, 0, 1], [[1, 3], [5, 1]], "4 discrete actions (2 x 3 x 4 x 2)"),
        ("Bits", [1, 0, 0, 1], [[1, 0], [0, 1]], "4 binary actions"),
        ("Square", [-1, 0, 1, 9], [[0, 0.5], [1, 1]], "4 continuous actions"),
        ("Both", [1, 0.5], (0, [3.0]), "2 actions and 1 continuous action"),
        ("Alone", [2], ({"gear": 3}, []), "3 actions"),
        ("AloneInArray", [3], {"gear": [3]}, "4 actions"),
        (
            "Nested",
            [2, -1, 0.5, 1, 0, 1, 2, 1],
            {
                "arm": {"grip": 2, "move": [[-2], [1]]},
                "empty": [],
                "keys": [1, 0],
                "pair": (1, [2, 1]),
            },
            "3 actions and 2 continuous actions and 2 binary actions and 3 discrete actions (2 x 3 x 2)",
        ),
    ],
)
def test_actions_of_every_kind_are_as_the_environment_has_them(name: str, row: list, taken: Any, title: str) -> None:
    env, _ = begun(zoo(name))
    spec = ActionSpec.of(env.action_space)
    assert spec == ActionSpec.from_json(json.loads(json.dumps(spec.as_json())))
    assert (spec.title, spec.columns) == (title, len(row))
    env.step(spec.taken(np.array([row], np.float32))[0])
    (given,) = env.unwrapped.taken
    assert given in env.unwrapped.action_space
    assert_like(given, taken)
    for action in spec.sample(np.random.default_rng(1), np.zeros((50, spec.parameter_size))):
        env.step(action)
    assert all(given in env.unwrapped.action_space for given in env.unwrapped.taken)
    assert len({str(given) for given in env.unwrapped.taken}) > 10 or spec.columns < 3


class Own(World):
    """A world of an environment with such actions, as it is."""

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> gymnasium.Env:
        return spaces_zoo.Show(spaces_zoo.VECTORS["Bounded"], spaces_zoo.ACTIONS["Nested"])


def test_a_worlds_own_environment_has_its_actions_too() -> None:
    env = Own(read()).open_env()
    env.reset(seed=1)
    env.step(np.array([2, -1, 0.5, 1, 0, 1, 2, 1], np.float32))
    assert env.unwrapped.taken[0] in env.unwrapped.action_space


def test_actions_of_half_precision_are_taken_without_a_warning() -> None:
    low, high = np.array([-2, 0], np.float16), np.array([3, 1], np.float16)
    assert ActionSpec.of(spaces.Box(low, high, dtype=np.float16)).parts == (Continuous((-2.0, 0.0), (3.0, 1.0)),)


@pytest.mark.parametrize(
    ("name", "bounds", "row", "taken", "other", "clipped"),
    [
        ("Free", "-2 2", [-1, 0.5], [-2, 1], [-9, 9], [-2, 2]),
        ("Free", "0 1e3", [-1, 1], [0, 1000], [-9, 9], [0, 1000]),
        ("Free", "none", [-1, 0.5], [-1, 0.5], [-9, 1e6], [-9, 1e6]),
        ("Half", "-2 2", [-1, 1], [0, 2], [-9, 9], [0, 2]),
        ("Half", "none", [0.5, 1], [0.5, 1], [-9, 9], [0, 9]),
        ("Largest", "-2 2", [-1, 0.5], [-2, 1], [-9, 9], [-2, 2]),
        ("Largest", "none", [-1, 0.5], [-1, 0.5], [-9, 9], [-9, 9]),
        ("Fixed", "none", [0.5, 1], [0.5, 1], [-9, 9], [0, 1]),
        ("Square", "none", [0.5, 0, 1, 1], [[0.5, 0], [1, 1]], [-9, 9, 0, 0], [[0, 1], [0, 0]]),
        ("Square", "-2 2", [0.5, 0, 1, 1], [[0.75, 0.5], [1, 1]], [-9, 9, 0, 0], [[0, 1], [0.5, 0.5]]),
        (
            *("Loose", "-2 2", [1, -1, -1], {"gear": 1, "pull": [-2, 3]}),
            *([0, 9, 9], {"gear": 0, "pull": [1, 4]}),
        ),
        (
            *("Loose", "none", [1, -1, 3.5], {"gear": 1, "pull": [-1, 3.5]}),
            *([0, -99, 9], {"gear": 0, "pull": [-99, 4]}),
        ),
    ],
)
def test_numbers_without_bounds_have_those_that_are_named(
    name: str, bounds: str, row: list, taken: Any, other: list, clipped: Any
) -> None:
    configuration = zoo(name, f"environment.action_bounds={bounds}")
    env, _ = begun(configuration)
    spec = ActionSpec.of(env.action_space)
    for action in spec.taken(np.array([row, other], np.float32)):
        env.step(action)
    for given, expected in zip(env.unwrapped.taken, (taken, clipped), strict=True):
        assert given in env.unwrapped.action_space
        assert_like(given, expected)
    assert not remarks(configuration, inspect_env(configuration))


def test_unfitting_bounds_are_reported() -> None:
    assert "low < high" in refusal(zoo("Loose", "environment.action_bounds=5 6"))
    assert "environment.action_bounds" in refusal(zoo("Free"))
    configuration = zoo("Plain", "environment.action_bounds=-1 1")
    assert "ignores environment.action_bounds" in remarks(configuration, inspect_env(configuration))[0]
    for value in ("2 -2", "1", "1 2 3", "nan 1", "0 inf", "low high", ""):
        with pytest.raises(UserError, match="action_bounds: must be two numbers"):
            zoo("Free", f"environment.action_bounds={value}")


def assert_like(given: Any, expected: Any) -> None:
    """Nested actions, with the environment's own structure."""
    assert isinstance(given, dict) == isinstance(expected, dict)
    assert isinstance(given, tuple) == isinstance(expected, tuple)
    if isinstance(expected, dict):
        assert given.keys() == expected.keys()
        given, expected = (tuple(value[key] for key in sorted(value)) for value in (given, expected))
    if isinstance(expected, tuple):
        for one, other in zip(given, expected, strict=True):
            assert_like(one, other)
    else:
        np.testing.assert_allclose(given, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Free", "Box ones of floats with finite bounds"),
        ("Half", "Box ones of floats with finite bounds"),
        ("Largest", "Box ones of floats with finite bounds"),
        ("Loose", "(at pull)"),
        ("Whole", "Box ones of floats"),
        ("Fixed", "low < high"),
        ("Speech", "(at say)"),
        ("Nothing", "0 parameters"),
        ("Millions", "200,000 parameters, and kartrl takes 1 to 131,072"),
    ],
)
def test_actions_that_are_refused_are_one_clear_line(name: str, said: str) -> None:
    text = refusal(zoo(name))
    assert "actions" in text
    assert said in text, text


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "action"),
    [
        ("Pendulum-v1", (3,), "float32", ActionSpec((Continuous((-2.0,), (2.0,)),))),
        ("CartPole-v1", (4,), "float32", ActionSpec.of(spaces.Discrete(2))),
        ("FrozenLake-v1", (16,), "float32", ActionSpec.of(spaces.Discrete(4))),
        ("spaces_zoo:ChannelsFirst-v0", (84, 84, 4), "uint8", ActionSpec.of(spaces.Discrete(2))),
    ],
)
def test_inspection_describes_observations_as_sent(
    name: str, shape: tuple[int, ...], dtype: str, action: ActionSpec
) -> None:
    spec = inspect_env(config(name))
    assert (spec.observation.shape, spec.observation.dtype, spec.action) == (shape, dtype, action)
    assert spec.step_seconds > 0, "it could be stepped"


@pytest.mark.parametrize(
    ("setting", "mirrored"),
    [("0 3 2 1", (0, 3, 2, 1)), ("3, 1, 2, 0", (3, 1, 2, 0)), ("none", ()), ("auto", ())],
)
def test_mirrored_actions_are_those_of_the_setting(setting: str, mirrored: tuple[int, ...]) -> None:
    assert inspect_env(config("kartrl/Snake-v0", f"environment.mirrored_actions={setting}")).mirrored == mirrored


@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        ("kartrl/Snake-v0", "0 3 2", "one action for each of the 4"),
        ("kartrl/Snake-v0", "0 3 2 4", "the two of a pair each other"),
        ("kartrl/Snake-v0", "1 2 3 0", "the two of a pair each other"),
        ("CartPole-v1", "1 0", "only for images alone and Discrete actions"),
        ("Pendulum-v1", "0", "only for images alone and Discrete actions"),
    ],
)
def test_mirrored_actions_that_do_not_fit_are_refused(name: str, setting: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        inspect_env(config(name, f"environment.mirrored_actions={setting}"))
    assert "\n" not in str(caught.value)


def test_actions_are_drawn_from_all_that_may_be_done() -> None:
    random = np.random.default_rng(0)
    drawn = ActionSpec.of(spaces.Discrete(3)).sample(random, np.zeros((100, 3)))
    assert drawn.shape == (100,)
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) == {0, 1, 2}
    spec = ActionSpec((Continuous((-1.0, 5.0), (1.0, 9.0)),))
    drawn = spec.sample(random, np.zeros((100, 4)))
    assert drawn.shape == (100, 2)
    assert drawn.dtype == np.float32
    assert ((drawn >= (-1, 5)) & (drawn <= (1, 9))).all()
    assert (drawn.std(0) > [0.4, 0.8]).all()
    assert (spec.title, ActionSpec.of(spaces.Discrete(1)).title) == ("2 continuous actions", "1 action")


@pytest.mark.filterwarnings("ignore")  # it warns of any environment that is wrapped
@pytest.mark.parametrize(
    "name",
    [
        "Pendulum-v1",
        "Taxi-v4",
        "Blackjack-v1",
        *(f"spaces_zoo:{name}-v0" for name in ("ManyFirst", "Unit", "Memory", "Parts", "Several", "Shifted", "Steer")),
    ],
)
def test_gymnasiums_checker_accepts_the_environments(name: str) -> None:
    env = make_registered(config(name).environment, render=False)  # episode statistics hold the time, which differs
    check_env(env, skip_render_check=True, skip_close_check=True)
    env.close()
