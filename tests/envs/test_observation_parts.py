"""Dict and Tuple observations with images: packed rows, their order, chosen parts, and what is refused."""

import copy
import json
from typing import Any

import gymnasium
import numpy as np
import parts_zoo
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from looks import describe_env

from kartrl.config import Environment, dump, read
from kartrl.envs import make_env, make_group
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec, plain
from kartrl.envs.worlds import load_world
from kartrl.envs.wrappers.observations import prepare_observations
from kartrl.errors import UserError
from kartrl.sizing.inspection import remarks, tell_view

IMAGE = spaces.Box(0, 255, (24, 20, 3), np.uint8)
SPEED = spaces.Box(-np.inf, np.inf, (2,), np.float64)
SIZE = {"height": 18, "width": 17}


def prepared(space: spaces.Space, *names: str, **view: Any) -> gymnasium.Env:
    """An environment with samples of this space, as the network sees these parts of it."""
    section = Environment(**SIZE | view, observation_parts=names or ("all",))
    return prepare_observations(parts_zoo.Samples(copy.deepcopy(space)), section)  # each draws by itself


def spec_of(env: gymnasium.Env) -> ObservationSpec:
    return ObservationSpec.of(env.observation_space)


def unpacked(spec: ObservationSpec, row: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of a row by name, read by their dtypes and places alone."""
    places = zip(spec.parts, spec.begins, strict=True)
    return {
        part.name: np.frombuffer(row.tobytes(), part.dtype, int(np.prod(part.shape)), begin).reshape(part.shape)
        for part, begin in places
    }


SIDES = st.integers(16, 30)
LEAVES = st.one_of(
    st.builds(lambda height, width, colours: spaces.Box(0, 255, (height, width, colours), np.uint8), *[SIDES] * 2,
              st.sampled_from([1, 3, 7])),
    st.builds(lambda height, width: spaces.Box(0, 1, (height, width), np.float32), SIDES, SIDES),
    st.builds(lambda size: spaces.Box(-np.inf, np.inf, (size,), np.float32), st.integers(1, 5)),
    st.builds(lambda size: spaces.Box(0, 100, (size, 2), np.int64), st.integers(1, 3)),
    st.builds(spaces.Discrete, st.integers(1, 5)),
    st.just(spaces.MultiDiscrete([2, 3])),
    st.builds(spaces.MultiBinary, st.integers(1, 5)),
    st.just(spaces.Box(0, 1, (0,), np.float32)),
)  # fmt: skip
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(SPACES, SPACES, st.sampled_from([1, 3]), st.booleans())
def test_each_packed_part_is_as_it_would_be_alone(one, other, stack, grayscale):
    space = spaces.Tuple((IMAGE, one, other))
    view = {"frame_stack": stack, "grayscale": grayscale}
    env = prepared(space, **view)
    spec = spec_of(env)
    alone = {part.name: prepared(space, part.name or "0", **view) for part in spec.parts}
    for seed in (1, None, 2):
        row = env.reset(seed=seed)[0]
        expected = {name: each.reset(seed=seed)[0] for name, each in alone.items()}
        for _ in range(3):
            assert row in env.observation_space
            given = unpacked(spec, row) if spec.is_packed else {"": row}
            assert given.keys() == expected.keys()
            for name, part in given.items():
                assert part.dtype == expected[name].dtype
                np.testing.assert_array_equal(part, expected[name])
            row = env.step(0)[0]
            expected = {name: each.step(0)[0] for name, each in alone.items()}


def test_a_row_has_images_first_and_vectors_aligned():
    env = prepared(spaces.Dict({"a": SPEED, "b": IMAGE, "c": spaces.Discrete(3), "d": IMAGE}))
    spec = spec_of(env)
    names = [part.name for part in spec.parts]
    assert names == ["b", "d", "a", "c"]
    image = 18 * 17 * 3
    assert spec.begins == (0, image, 2 * image, 2 * image + 8)
    assert spec.nbytes == 2 * image + 8 + 12
    odd = spec_of(prepared(spaces.Tuple((IMAGE, SPEED)), height=17, width=17))
    assert odd.begins == (0, 868), "867 bytes of an image, and one that is 0"
    assert (odd.shape, odd.dtype, odd.image_bytes) == ((876,), "uint8", 867)


@pytest.mark.parametrize("space", [spaces.Dict({"x": IMAGE}), spaces.Tuple((spaces.Dict({"x": IMAGE}),)), IMAGE])
def test_an_only_image_is_not_packed(space):
    env = prepared(space)
    assert spec_of(env) == plain(18, 17, 3)
    assert env.reset(seed=1)[0].shape == (18, 17, 3)


def test_parts_without_an_image_stay_one_vector():
    env = prepared(spaces.Dict({"a": SPEED, "b": spaces.Discrete(3)}))
    assert spec_of(env) == plain(5)


def test_parts_of_no_numbers_are_left_out():
    space = spaces.Dict({"image": IMAGE, "none": spaces.Box(0, 1, (0,), np.float32), "speed": SPEED})
    assert [part.name for part in spec_of(prepared(space)).parts] == ["image", "speed"]
    assert spec_of(prepared(space, "image", "none")) == plain(18, 17, 3)


def test_text_in_any_depth_is_left_out_and_told():
    config = read(overrides=["environment.id=parts_zoo:Grid-v0"])
    spec = describe_env(config)
    assert [part.name for part in spec.observation.parts] == ["image", "direction", "notes.1"]
    assert remarks(config, spec) == [
        f"{config.environment.id}: the network does not see mission, notes.0, which are text"
    ]


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        ("direction image", ["image", "direction"]),
        ("image", [""]),
        ("notes.1", [""]),
        ("direction, notes.1", [""]),
        ("image notes.1 direction", ["image", "direction", "notes.1"]),
    ],
)
def test_chosen_parts_alone_are_seen(names, seen):
    config = read(overrides=["environment.id=parts_zoo:Grid-v0", f"environment.observation_parts={names}"])
    spec = describe_env(config)
    assert [part.name for part in spec.observation.parts] == seen
    assert remarks(config, spec) == []
    assert read(base=dump(config)).environment.observation_parts == config.environment.observation_parts


def test_a_container_stands_for_all_in_it():
    config = read(overrides=["environment.id=parts_zoo:Signals-v0", "environment.observation_parts=cameras"])
    assert [part.name for part in describe_env(config).observation.parts] == ["cameras.0", "cameras.1"]


@pytest.mark.parametrize(
    ("name", "parts", "said"),
    [
        ("parts_zoo:Grid-v0", "imgae", "there is no part imgae; the nearest is image, of direction, image, mission"),
        ("parts_zoo:Grid-v0", "image mission", "Text(1, 9"),
        ("parts_zoo:Grid-v0", "image mission", "(at mission)"),
        ("parts_zoo:Grid-v0", "notes", "(at notes.0)"),
        ("parts_zoo:Signals-v0", "camera", "the nearest is cameras"),
        ("parts_zoo:Signals-v0", "state.sped", "the nearest is state.speed"),
        ("CartPole-v1", "position", "its observations have no parts; leave it out"),
    ],
)
def test_unknown_and_unusable_parts_are_refused(name, parts, said):
    config = read(overrides=[f"environment.id={name}", f"environment.observation_parts={parts}"])
    with pytest.raises(UserError) as caught:
        make_env(config)
    assert "\n" not in str(caught.value)
    assert said in str(caught.value)
    assert name in str(caught.value)


def test_parts_of_an_atari_screen_are_said_to_have_no_effect():
    pytest.importorskip("ale_py")
    config = read(overrides=["environment.id=ALE/Pong-v5", "environment.observation_parts=image"])
    assert remarks(config, describe_env(config)) == [
        "ALE/Pong-v5 ignores environment.observation_parts: setting them has no effect"
    ]


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({"image": IMAGE, "list": spaces.Sequence(SPEED)}, "(at list); kartrl takes Box"),
        ({"image": IMAGE, "list": spaces.Sequence(SPEED)}, "in environment.wrapper, or leave it out by environ"),
        ({"a": IMAGE, "b": {"net": spaces.Graph(SPEED, None)}}, "(at b.net)"),
        ({"a": SPEED, "b": (SPEED, spaces.OneOf([SPEED, IMAGE]))}, "(at b.1)"),
        ({"a": IMAGE, "film": spaces.Box(0, 255, (4, 40, 40, 3), np.uint8)}, "(at film); kartrl takes images of two"),
        ({"a": IMAGE, "deep": spaces.Box(-np.inf, np.inf, (40, 40, 3), np.float32)}, "(at deep); kartrl takes images"),
        ({"a": IMAGE, "b": spaces.Box(0, 255, (20, 24, 16), np.uint8)}, "(at b): are the channels"),
        ({"a": IMAGE, "many": spaces.Discrete(70_000)}, "a vector of 70000 numbers"),
        ({"a.b": IMAGE, "a": {"b": SPEED}}, "two parts of its observations have the same name, a.b"),
        ({str(number): SPEED for number in range(70)} | {"a": IMAGE}, "have 71 parts, and kartrl takes 64"),
        ({"a": spaces.Box(0, 255, (40, 40, 30), np.uint8), "b": SPEED}, "kartrl takes 67,108,864"),
    ],
)  # fmt: skip
def test_parts_that_are_refused_are_named(space, said):
    def whole(part):
        if isinstance(part, dict):
            return spaces.Dict({name: whole(inner) for name, inner in part.items()})
        return spaces.Tuple([whole(inner) for inner in part]) if isinstance(part, tuple) else part

    with pytest.raises(UserError) as caught:
        prepared(whole(space), height=400, width=400, frame_stack=16)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("FastBroken", "an observation of 1e+300, beyond the largest number of float32, 3.4e+38 (at speed)"),
        ("ImageBroken", "an image that is not finite (at image)"),
    ],
)
def test_a_part_that_is_not_finite_truncates_the_episode(name, fault):
    group = make_group(read(overrides=[f"environment.id=parts_zoo:{name}-v0"]), 2)
    group.reset(seed=1)
    seen = [group.step(np.zeros(2, np.int64)) for _ in range(4)]
    assert [step.faulty.all() for step in seen] == [False, False, True, False]
    assert group.fault == fault
    assert seen[2].truncated.all()
    assert not seen[2].observation.any()
    assert seen[3].observation.any()
    group.close()


def test_names_hold_no_spaces_and_nothing_unprintable():
    env = prepared(spaces.Dict({"front camera": IMAGE, "a,b": SPEED, "\x1b[2J": SPEED, 3: SPEED}))
    names = [part.name for part in spec_of(env).parts]
    assert names == ["front_camera", "a_b", "\\x1b[2J", "3"]
    assert spec_of(prepared(env.unwrapped.observation_space, "front_camera")) == plain(18, 17, 3)


def test_parts_are_printed_and_image_sizes_stay_auto():
    config = read(overrides=["environment.id=parts_zoo:Signals-v0", "environment.frame_stack=2"])
    spec = describe_env(config)
    fitted = load_world(config).fit(spec)
    view = fitted.environment
    assert (view.height, view.width, view.frame_stack, view.grayscale) == ("auto", "auto", 2, False)
    assert tell_view(fitted, spec) == (
        "The network sees cameras.0 (colour images, 48 rows of 56 pixels, the newest 2 of them), cameras.1 (grey "
        "images, 60 rows of 51 pixels, the newest 2 of them), gear (2 numbers) and state.speed (3 numbers)"
    )
    assert describe_env(fitted).observation == spec.observation


def test_mirrored_actions_with_several_parts_are_refused():
    config = read(overrides=["environment.id=parts_zoo:Signals-v0", f"environment.mirrored_actions={'1 0 ' * 8}"])
    with pytest.raises(UserError, match="only for images alone"):
        describe_env(config)


def test_a_spec_is_the_same_after_json():
    spec = spec_of(prepared(spaces.Dict({"a": SPEED, "b": IMAGE})))
    for each in (spec, plain(4), plain(84, 84, 4)):
        assert ObservationSpec.from_json(json.loads(json.dumps(each.as_json()))) == each


def test_differences_name_the_part():
    there = ObservationSpec.packed([ObservationPart("a", (3,)), ObservationPart("b", (40, 40, 1))])
    here = ObservationSpec.packed([ObservationPart("a", (3,)), ObservationPart("b", (40, 48, 1))])
    assert there.differences(here) == ["the part b of observations is 40x40x1 there, 40x48x1 here"]
    assert there.differences(there) == plain(4).differences(plain(4)) == []
    assert plain(3).differences(plain(1)) == ["observations are 3 numbers there, 1 number here"]
