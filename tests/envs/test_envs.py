"""make_env on real environments other than the kart: CartPole and Atari's Pong."""

import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from kartrl.config import Config, read
from kartrl.envs import make_env
from kartrl.envs.episode import STATISTICS
from kartrl.envs.named_modules import named_modules, untrusted_modules
from kartrl.envs.registered import make_registered
from kartrl.errors import UserError
from kartrl.sizing.inspection import inspect_env


def config(*overrides: str) -> Config:
    return read([], overrides)


def drive(env: gymnasium.Env, steps: int, seed: int) -> list[np.ndarray]:
    """Observations of a seeded random drive; every one must be within the space."""
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    seen = [observation]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert np.isfinite(float(reward))
        seen.append(observation)
        if terminated or truncated:
            observation, _ = env.reset()
            seen.append(observation)
    assert all(one in env.observation_space for one in seen)
    return seen


def test_cartpole_is_a_float_vector_with_statistics() -> None:
    env = make_env(read(["cartpole"]))
    assert env.observation_space.shape == (4,)
    assert env.observation_space.dtype == np.float32
    assert isinstance(env.action_space, spaces.Discrete)
    env.reset(seed=3)
    length, over = 0, False
    while not over:
        _, _, terminated, truncated, info = env.step(0)
        length, over = length + 1, terminated or truncated
    assert terminated
    assert not truncated
    assert int(info[STATISTICS]["l"]) == length
    assert float(info[STATISTICS]["r"]) == length
    env.close()


def test_cartpole_is_truncated_by_its_own_time_limit() -> None:
    env = gymnasium.wrappers.TimeLimit(make_env(config("environment.id=CartPole-v1")), 3)
    env.reset(seed=1)
    assert [env.step(step % 2)[2:4] for step in range(3)][-1] == (False, True)
    env.close()


@pytest.mark.parametrize(("stack", "gray", "channels"), [(4, "true", 4), (2, "false", 6), (1, "true", 1)])
def test_pong_is_a_stack_of_pictures(stack: int, gray: str, channels: int) -> None:
    pytest.importorskip("ale_py")
    sizes = ("environment.height=40", "environment.width=30")
    env = make_env(
        config(
            "environment.id=ALE/Pong-v5", f"environment.frame_stack={stack}", f"environment.grayscale={gray}", *sizes
        )
    )
    assert env.observation_space.shape == (40, 30, channels)
    assert env.observation_space.dtype == np.uint8
    first = drive(env, 40, seed=5)
    again = drive(env, 40, seed=5)
    assert len(first) == len(again)
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    single = channels // stack
    for before, after in pairwise(first):
        assert np.array_equal(
            before[..., single:], after[..., : channels - single]
        )  # the stack moves on by one picture
    env.close()


def test_pong_skips_frames_and_begins_with_noops() -> None:
    pytest.importorskip("ale_py")
    env = make_env(config("environment.id=ALE/Pong-v5", "environment.frame_skip=3", "environment.noop_max=0"))
    _, info = env.reset(seed=1)
    before = info["episode_frame_number"]
    info = env.step(0)[4]
    assert info["episode_frame_number"] - before == 3
    env.close()
    env = make_env(config("environment.id=ALE/Pong-v5", "environment.noop_max=30"))
    starts = {env.reset(seed=seed)[1]["episode_frame_number"] for seed in range(6)}
    assert len(starts) > 2
    env.close()


def test_pong_config_of_the_repository() -> None:
    pytest.importorskip("ale_py")
    env = make_env(read(["pong"]), render=True)
    env.reset(seed=1)
    assert env.observation_space.shape == (84, 84, 4)
    assert env.render().shape == (210, 160, 3)
    env.close()


class Colours(gymnasium.Env):
    """Pictures of any shape, all of one value that counts the steps."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 10
        return np.full(self.observation_space.shape, self.count, np.uint8), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.count += 10
        return np.full(self.observation_space.shape, self.count, np.uint8), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("shape", "gray", "channels"),
    [((20, 30), True, 1), ((20, 30, 3), True, 1), ((20, 30, 3), False, 3), ((20, 30, 4), True, 4)],
)
def test_any_picture_becomes_height_width_channels(shape: tuple[int, ...], gray: bool, channels: int) -> None:
    name = f"kartrl_test/Colours{len(shape)}{shape[-1]}{int(gray)}-v0"
    gymnasium.register(name, lambda **_: Colours(shape))
    section = config(f"environment.id={name}", "environment.frame_stack=2", f"environment.grayscale={gray}").environment
    env = make_registered(section, render=False)
    assert env.observation_space.shape == (40, 60, 2 * channels)
    env.reset(seed=1)
    observation, *_ = env.step(0)
    assert observation in env.observation_space
    assert np.unique(observation[..., :channels]) == 10
    assert np.unique(observation[..., channels:]) == 20


class Ramp(Colours):
    """Images whose pixels differ, of 20 rows of 30 pixels, channels first or last."""

    def reset(self, **options: object) -> tuple[np.ndarray, dict]:
        shape = self.observation_space.shape or ()
        return np.arange(np.prod(shape)).reshape(shape).astype(np.uint8), {}


@pytest.mark.parametrize(("shape", "first"), [((20, 30, 3), False), ((3, 20, 30), True), ((20, 30), False)])
def test_crop_is_the_part_of_the_image_that_is_seen(shape: tuple[int, ...], first: bool) -> None:
    name = f"kartrl_test/Ramp{len(shape)}{shape[-1]}-v0"
    gymnasium.register(name, lambda **_: Ramp(shape))
    whole = Ramp(shape).reset()[0]
    whole = np.moveaxis(whole, 0, 2) if first else whole.reshape(20, 30, -1)
    seen = [
        "environment.crop=4 5 20 10",
        "environment.height=10",
        "environment.width=20",
        "environment.grayscale=false",
    ]
    env = make_registered(config(f"environment.id={name}", *seen).environment, render=False)
    np.testing.assert_array_equal(env.reset(seed=1)[0], whole[5:15, 4:24])
    own_size = make_registered(config(f"environment.id={name}", "environment.crop=4 5 0 0").environment, render=False)
    assert (own_size.observation_space.shape or ())[:2] == (45, 78), "the sides of what is seen, times 3"
    with pytest.raises(UserError, match="crop: 30 0 0 0 is outside of the image, which is 30 pixels wide and 20 high"):
        make_registered(config(f"environment.id={name}", "environment.crop=30 0 0 0").environment, render=False)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Cartpole-v1", ["CartPole-v1"]),
        ("CartPole-v9", ["v9", "CartPole-v1"]),
        ("Pong-v5", ["ALE/Pong-v5"]),
        ("PongDeterministic-v4", ["Nearest: PongNoFrameskip-v4"]),
        ("Pong-ram-v4", ["Nearest: ALE/Pong-v5; for its memory, set environment.kwargs.obs_type=ram"]),
        ("Pong-ramDeterministic-v4", ["Nearest: PongNoFrameskip-v4; for its memory"]),
        ("Foo/Bar-v0", ["Foo"]),
        ("no id", ["Malformed"]),
        ("nowhere:Env-v0", ["nowhere"]),
        pytest.param(
            "LunarLander-v3",
            ["Box2D"],
            marks=pytest.mark.skipif(find_spec("Box2D") is not None, reason="Box2D is installed"),
        ),
    ],
)
def test_environments_that_cannot_be_used_are_one_clear_line(name: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        make_env(config(f"environment.id={name}"))
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def python(code: str) -> str:
    """Output of a fresh interpreter; the test fails if it does."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_is_light() -> None:
    names = "('torch', 'cv2', 'pydantic', 'stable_retro', 'ale_py', 'kartrl.kart.env')"
    assert python(f"import kartrl.envs, sys; print([name for name in {names} if name in sys.modules])") == "[]\n"


def test_nothing_here_imports_torch() -> None:
    modules = "kartrl.kart.env, kartrl.envs.registered, kartrl.kart.cartridge, stable_retro, sys"
    code = f"import {modules}; print('torch' in sys.modules)"
    pytest.importorskip("stable_retro")
    assert python(code) == "False\n"


def missing(module: str, name: str) -> str:
    """The error for the environment `name` where `module` is not installed."""
    return python(
        f"""
import sys
sys.modules[{module!r}] = None  # what an import finds is as if it were not installed
from kartrl.config import read
from kartrl.envs import make_env
from kartrl.errors import UserError
from kartrl.sizing.inspection import inspect_env
make_env(read([], ["environment.id=CartPole-v1"])).close()
try:
    make_env(read([], ["environment.id={name}"]))
except UserError as error:
    print(error)
"""
    )


def test_missing_stable_retro_disables_only_the_kart() -> None:
    text = missing("stable_retro", "kartrl/Kart-v0")
    assert all(word in text for word in ("stable-retro", "Linux", "x86-64", "macOS", "arm64", "CartPole-v1"))


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [("ale_py", "ALE/Pong-v5", "atari"), ("minigrid", "minigrid:MiniGrid-MemoryS7-v0", "minigrid")],
)
def test_the_extra_of_a_missing_package_is_named(module: str, name: str, extra: str) -> None:
    assert f"pip install 'kartrl[{extra}]'" in missing(module, name)


def test_what_a_preset_imports_is_trusted_and_no_more() -> None:
    preset = read(["minigrid_memory"]).environment
    assert named_modules(preset) == ["minigrid", "minigrid.wrappers"]
    assert not untrusted_modules(preset)
    assert untrusted_modules(preset.model_copy(update={"wrapper": "minigrid.envs:X"})) == ["minigrid.envs"]


@pytest.mark.parametrize("hiccup", [[], ["environment.kwargs.at=1", "environment.kwargs.seconds=0.15"]])
def test_a_busy_machine_does_not_make_an_environment_look_slow(hiccup: list[str]) -> None:
    spec = inspect_env(read([], ["environment.id=crashing:Hiccup-v0", *hiccup]))
    assert 0 < spec.step_seconds < 0.005, "half of what its mean would be"
