"""What an environment is seen like if nobody says: defaults that fit it, and what is told of them."""

import importlib.util

import pytest
from policies import make_checkpoint

from kartrl.config import Crop, View, dump, presets, read
from kartrl.envs.first_look import look
from kartrl.envs.worlds import load_world
from kartrl.run.resuming import resumed_config
from kartrl.sizing.inspection import tell_presets, tell_view

needs_atari = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed")
ATARI, KART = View(4, 4, 84, 84, True), View(5, 1, 54, 52, True)
RETRO = ATARI._replace(crop="auto")
OWN = View(1, 1, 0, 0, False)  # stands for an image's own size
IMAGES = {
    **dict.fromkeys(("breakout", "breakout_appo", "space_invaders", "seaquest", "beam_rider"), (ATARI, "clip")),
    **dict.fromkeys(("ms_pacman", "pong_ppo", "pong_acer"), (ATARI, "clip")),
    "pong_appo": (ATARI._replace(height=42, width=42), "clip"),
    **dict.fromkeys(("pong", "pong_impala"), (ATARI, "none")),
    "pong_lstm": (View(4, 1, 54, 54, True), "none"),
    **dict.fromkeys(("all_circuits", "generated", "race"), (KART._replace(grayscale=False), "none")),
    "kart_replay": (KART, "none"),
    "airstriker": (RETRO, "clip"),
    "rapids": (View(4, 1, 28, 56, True, Crop(8, 88, 224, 112)), "clip"),
    "sonic": (RETRO, "none"),
    "snake": (View(1, 1, 17, 17, False), "none"),
    "car_racing": (View(1, 2, 84, 84, True, Crop(0, 0, 96, 84)), "none"),
    "coinrun": (View(1, 1, 64, 64, False), "none"),
}


def seen(*overrides: str, files: tuple[str, ...] = ()):
    """The configuration to be recorded, the lines that are told first, and the shape of observations."""
    world = load_world(read(files, overrides))
    spec = next(look(world.config))
    config = world.fit(spec)
    return config, [tell_view(config, spec), *tell_presets(config, files)], spec.observation.shape


@needs_atari
@pytest.mark.parametrize("preset", presets())
def test_preset_observations_are_unchanged(preset):
    world = load_world(read([preset]))
    section, transform = world.config.environment, world.config.algorithm.reward_transform
    expected = IMAGES.get(preset, (None, "none"))
    if preset in IMAGES:
        assert section.view(world.usual_view or OWN) == expected[0]
    else:
        assert world.usual_view is None
        assert not {"frame_skip", "frame_stack", "height", "width", "grayscale"} & section.model_fields_set
    assert (world.usual_rewards if transform == "auto" else transform) == expected[1]


@needs_atari
@pytest.mark.parametrize("name", ["ALE/Breakout-v5", "BreakoutNoFrameskip-v4", "ale_py:ALE/Breakout-v5"])
def test_an_atari_game_is_seen_as_is_usual(name):
    config, lines, shape = seen(f"environment.id={name}")
    assert shape == (84, 84, 4)
    assert config.environment.view(OWN) == ATARI
    assert config.algorithm.reward_transform == "clip"
    assert lines[0] == (
        "The network sees grey images, 84 rows of 84 pixels, the newest 4 of them; an action is held for 4 frames; "
        "rewards: clip"
    )
    other = "" if "No" in name else f" --env {name}"
    assert lines[1:] == [f"kartrl has settings for Breakout: -c breakout{other} (or breakout_appo)"]


@needs_atari
def test_given_keys_are_kept_and_presets_not_reported():
    given = "environment.height=54", "environment.grayscale=false", "algorithm.reward_transform=sign"
    config, lines, shape = seen(*given, files=("breakout_appo",))
    assert shape == (54, 84, 12)
    assert config.environment.view(OWN) == View(4, 4, 54, 84, False)
    assert config.algorithm.reward_transform == "sign"
    assert len(lines) == 1
    _, lines, shape = seen("environment.id=ALE/Pong-v5", "environment.kwargs.obs_type=ram")
    assert shape == (128,)
    assert lines == ["The network sees 128 numbers"], "presets are for the screen"


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("spaces_zoo:ChannelsLast-v0", (60, 40, 3), "colour images, 60 rows of 40 pixels"),
        ("spaces_zoo:UnitFirst-v0", (60, 60, 3), "colour images, 60 rows of 60 pixels"),
        ("spaces_zoo:Screen-v0", (90, 96, 3), "colour images, 90 rows of 96 pixels"),
        ("spaces_zoo:Strip-v0", (40, 96, 1), "grey images, 40 rows of 96 pixels"),
        ("spaces_zoo:ManyLast-v0", (84, 84, 12), "12-channel images, 84 rows of 84 pixels"),
        ("kartrl/Snake-v0", (51, 51, 3), "colour images, 51 rows of 51 pixels"),
    ],
)
def test_an_image_is_seen_in_its_own_size_within_bounds(name, shape, text):
    config, lines, seen_shape = seen(f"environment.id={name}")
    assert seen_shape == shape
    assert (config.environment.height, config.environment.width) == shape[:2]
    assert (config.environment.frame_stack, config.environment.grayscale) == (1, False)
    assert lines[0] == f"The network sees {text}"
    assert lines[1:] == ["kartrl has settings for Snake: -c snake"] * ("Snake" in name)
    assert next(look(config)).observation.shape == shape, "as a checkpoint has it"


def test_kart_observations_are_unchanged():
    pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")
    overrides = "kart.game=bundled", "levels.*=none", "levels.MarioCircuit.Act1=train"
    config, lines, shape = seen(*overrides)
    assert shape == (54, 52, 1)
    assert config.environment.view(OWN) == KART
    assert lines == ["The network sees grey images, 54 rows of 52 pixels; an action is held for 5 frames"]


def test_vectors_have_no_view_and_other_settings_are_reported():
    config, lines, _ = seen("environment.id=CartPole-v1")
    assert config.environment.view(OWN) == OWN, "all still auto: without effect"
    assert config.algorithm.reward_transform == "none"
    assert lines[0] == "The network sees 4 numbers"
    assert lines[1].startswith("kartrl has settings for CartPole: -c cartpole (or cartpole_a2c, ")


@pytest.mark.parametrize("name", ["cartpole", "cartpole_a2c"])
def test_presets_in_use_without_their_name_are_not_reported(name, tmp_path):
    copy = tmp_path / "copy.cfg"
    copy.write_text(dump(read([name])))
    _, lines, _ = seen("run.agent_steps=1000", files=(str(copy),))
    assert lines == ["The network sees 4 numbers"]


def test_resumed_run_keeps_its_chosen_defaults(tmp_path):
    """With a copy of default.cfg, in which all is auto."""
    given = "environment.height=60", "environment.grayscale=false", "algorithm.reward_transform=sign"
    stored = make_checkpoint(1000, "environment.id=CartPole-v1", *given)
    copy = tmp_path / "copy.cfg"
    copy.write_text(dump(read(overrides=["environment.id=CartPole-v1", "model.hidden_size=16"])))
    config = resumed_config(stored, [str(copy)], [])
    assert config.environment == stored.config.environment
    assert config.algorithm.reward_transform == "sign"
