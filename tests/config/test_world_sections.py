"""Sections that a world brings to the configuration: what applies is shown, all else is one clear line."""

import json
import subprocess
import sys

import pytest
import walking
from commands import HELPERS, assert_clear, environment

from kartrl.cli import main
from kartrl.config import Config, dump, read, settings
from kartrl.config.explanation import changes
from kartrl.config.worlds import WORLDS, settings_of
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError

CARTPOLE, WALK = "environment.id=CartPole-v1", "environment.id=Walk-v0"
KART_ONLY = "applies to kartrl/Kart-v0 only; environment.id is CartPole-v1"


def sections(config):
    return {line.strip("[]") for line in dump(config).splitlines() if line.startswith("[")}


def test_a_world_shows_its_own_sections_and_no_others(capfd):
    common = set(Config().sections) - {"kart", "reward"}
    assert sections(read()) == common | {"kart", "reward", "levels"}
    assert sections(read(overrides=[WALK])) == common | {"walk", "reward", "levels"}
    assert main(["config", "--env", "CartPole-v1"]) == 0
    shown = capfd.readouterr().out
    assert {line.strip("[]") for line in shown.splitlines() if line.startswith("[")} == common
    assert "\nopponents =" not in shown
    assert "MarioCircuit" not in shown


def test_world_has_defaults_of_shared_sections(capfd):
    """A world may prefer others; a file, a stored configuration and --set come after them."""
    kart, cartpole = read(), read(overrides=[CARTPOLE])
    assert (kart.algorithm.discount.start, kart.appo.epochs, kart.appo.minibatch_size) == (0.98, 1, 64)
    assert (cartpole.algorithm.discount.start, cartpole.appo.epochs, cartpole.appo.minibatch_size) == (0.99, 2, 128)
    assert read(overrides=["algorithm.discount=0.9"]).algorithm.discount.start == 0.9
    assert read(base=dump(cartpole)) == cartpole
    assert Config(algorithm=cartpole.algorithm).algorithm == cartpole.algorithm
    for world, epochs in ("kartrl/Kart-v0", "1"), ("CartPole-v1", "2"):
        assert main(["config", "explain", "appo.epochs", "--env", world, "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["default"] == epochs
    assert [one.key for one in changes(cartpole)] == ["id"]
    assert {"discount", "epochs", "minibatch_size", "id"} <= {one.key for one in changes(cartpole, kart)}


def test_worlds_may_have_sections_of_the_same_name():
    walk = read(overrides=[WALK, "reward.arrival=3", "walk.steps=1e1"])
    assert (walk.world.reward.arrival, walk.world.walk.steps) == (3.0, 10)
    assert read(base=dump(walk)) == walk
    assert settings(walk)["reward.arrival"] == 3.0
    assert read(overrides=["reward.progress=3"]).world.reward.progress == 3.0
    changed = walk.replaced(walk=walk.world.walk.model_copy(update={"steps": 5}), run=Config().run)
    assert (changed.world.walk.steps, changed.world.reward) == (5, walk.world.reward)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["kart.opponents=3", CARTPOLE], f"--set kart.opponents=3: [kart] {KART_ONLY}"),
        ([CARTPOLE, "kart.nonsense=3"], f"[kart] {KART_ONLY}"),
        ([CARTPOLE, "reward.time=0"], "[reward] applies to kartrl/Kart-v0 and Walk-v0 only"),
        ([CARTPOLE, "levels.MarioCircuit.Act1=train"], "[levels] applies to kartrl/Kart-v0"),
        (
            [CARTPOLE, "environment.opponents=3"],
            f"unknown key 'opponents' in [environment]; kart.opponents {KART_ONLY}",
        ),
        ([WALK, "reward.progress=3"], "unknown key 'progress' in [reward]; reward.progress applies to kartrl/Kart-v0"),
        ([WALK, "reward.arive=3"], "unknown key 'arive' in [reward]; the nearest valid one is 'arrival'"),
        ([WALK, "walk.steps=0"], "[walk] steps: must be 1 or more (got '0')"),
        ([WALK, "kart.opponents=3"], "[kart] applies to kartrl/Kart-v0 only; environment.id is Walk-v0"),
        (
            ["environment.opponents=3"],
            "unknown key 'opponents' in [environment]; the nearest valid one is 'kart.opponents'",
        ),
        (["environment.circuit_sampling=steps"], "the nearest valid one is 'kart.circuit_sampling'"),
        (
            ["environment.oponents=3"],
            "unknown key 'oponents' in [environment]; the nearest valid one is 'kart.opponents'",
        ),
        (["karts.opponents=3"], "unknown section [karts]; the nearest valid one is 'kart'"),
        (["appo.learning_rate=1"], "the nearest valid one is 'optimizer.learning_rate'"),
        (["kart.opponents=8"], "[kart] opponents: must be 7 or less (got '8')"),
        (["kart.crop_top=200"], "[kart]: crop_top must be less than crop_bottom"),
        (["environment.id=", "kart.opponents=3"], "[environment] id: must not be empty"),
        (["kart.opponents=3", "environment.id=a\nb"], r"[kart] applies to kartrl/Kart-v0 only; environment.id is a\nb"),
    ],
)
def test_a_key_of_another_world_is_one_line_that_says_whose(overrides, message):
    with pytest.raises(UserError) as error:
        read(overrides=overrides)
    assert message in str(error.value)
    assert_clear(error.value)


def test_the_world_is_that_of_the_last_id_wherever_it_is_given(tmp_path):
    """Also that of a copy of default.cfg whose id is changed: what belongs to the kart is named."""
    (tmp_path / "kart.cfg").write_text("[kart]\nopponents = 3\n")
    (tmp_path / "walk.cfg").write_text("[walk]\nsteps = 7\n[environment]\nid = Walk-v0\n")
    kart = read([tmp_path / "kart.cfg"], [CARTPOLE, "environment.id=kartrl/Kart-v0"])
    assert kart.world.kart.opponents == 3
    assert read([tmp_path / "walk.cfg"]).world.walk.steps == 7
    with pytest.raises(UserError, match=r"kart\.cfg: \[kart\] applies to kartrl/Kart-v0 only"):
        read([tmp_path / "kart.cfg", tmp_path / "walk.cfg"])
    with pytest.raises(UserError, match=r"stored configuration: \[kart\] applies"):
        read(base=dump(Config()), overrides=[CARTPOLE])


def test_a_key_of_another_world_ends_a_command_with_status_2(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--env", "CartPole-v1", "--set", "kart.opponents=3"]) == 2
    assert capfd.readouterr().err.strip() == f"kartrl: --set kart.opponents=3: [kart] {KART_ONLY}"
    assert list(tmp_path.iterdir()) == []


def test_settings_of_worlds_load_neither_torch_nor_an_emulator():
    code = "from kartrl.config import read; import sys; "
    code += f"[read(overrides=['environment.id=' + world]) for world in {sorted({*WORLDS} - {'Walk-v0'})}]; "
    code += "print(*({'torch', 'stable_retro', 'cv2', 'ale_py', 'envpool', 'kartrl.envs'} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), cwd=HELPERS, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_namespace_may_be_a_world(monkeypatch):
    monkeypatch.setitem(WORLDS, "walks/", "walking")
    assert settings_of("walks/Any-v3") is walking.SETTINGS
    assert settings_of("walk/Any-v3") is not walking.SETTINGS
    monkeypatch.delitem(WORLDS, "Walk-v0")
    with pytest.raises(UserError, match=r"\[walk\] applies to walks/\.\.\. only; environment\.id is CartPole-v1"):
        read(overrides=[CARTPOLE, "walk.steps=3"])


def test_what_differs_is_of_the_sections_of_its_own_world(capfd, tmp_path):
    assert main(["config", "--env", "Walk-v0", "--set", "walk.steps=7", "--diff"]) == 0
    text = capfd.readouterr().out
    assert text == "[environment]\n# kartrl/Kart-v0\nid = Walk-v0\n[walk]\n# 20\nsteps = 7\n"
    (tmp_path / "own.cfg").write_text(text)
    assert read([tmp_path / "own.cfg"]) == read(overrides=[WALK, "walk.steps=7"])


@pytest.mark.parametrize("id", ["retro/Airstriker-Genesis-v0", "kartrl/Procgen-v0", "kartrl/Kart-v0"])
def test_what_a_run_has_stored_does_not_differ(id):
    """60 in a default is 60.0 in a run's configuration."""
    stored = read(base=dump(read(overrides=[f"environment.id={id}"])))
    assert [f"{one.section}.{one.key}" for one in changes(stored)] == ["environment.id"] * (
        id != Config().environment.id
    )


def test_key_of_a_world_is_explained_with_its_default(capfd):
    assert main(["config", "explain", "steps", "--env", "Walk-v0", "--set", "walk.steps=7", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["key"], found["default"], found["value"]) == ("walk.steps", "20", "7")
    assert main(["config", "--env", "Walk-v0", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["config"]["walk"] == {"steps": 20}


@pytest.mark.parametrize(
    ("overrides", "train", "test"),
    [
        ((), ("flat.short", "flat.long"), ("steep",)),
        (("levels.flat.*=test", "levels.steep=train"), ("steep",), ("flat.short", "flat.long")),
        (("levels.*=none", "levels.flat.long=train"), ("flat.long",), ()),
        (("levels.flat.long=test", "levels.flat.*=train"), ("flat.short", "flat.long"), ("steep",)),
    ],
)
def test_the_last_key_for_a_level_counts_in_any_world(overrides, train, test):
    config = read(overrides=[WALK, *overrides])
    world = load_world(config)
    assert (sorted(world.levels("train")), sorted(world.levels("test"))) == (sorted(train), sorted(test))
    assert world.find_uses([*train, *test, "nowhere"]) == dict.fromkeys(train, "train") | dict.fromkeys(test, "test")
    assert read(base=dump(config)) == config


def test_a_level_that_no_world_has_is_one_line(capfd, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"levels\.step=train.*the nearest valid one is 'steep'"):
        read(overrides=[WALK, "levels.step=train"])
    world = load_world(read(overrides=[WALK]))
    assert world.find_levels(["flat.*", "steep", "flat.long"]) == ("flat.short", "flat.long", "steep")
    with pytest.raises(UserError, match=r"-l step: no such level; the nearest valid one is 'steep'"):
        world.find_levels(["step"])
    with pytest.raises(UserError, match=r"-l steep: CartPole-v1 has no levels"):
        load_world(read(overrides=[CARTPOLE])).find_levels(["steep"])
    with pytest.raises(UserError, match=r"no path to train on; .*levels\.NAME=train"):
        load_world(read(overrides=[WALK, "levels.*=none"])).check()
