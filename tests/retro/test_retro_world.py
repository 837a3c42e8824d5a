"""Retro games as a world: trained from a name, their start states as levels, seen and unseen."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import logged, run
from policies import save_policy

from kartrl.cli import main
from kartrl.config import dump, read
from kartrl.driving.episodes import reset_options
from kartrl.envs import make_env
from kartrl.envs.observation_spec import ObservationSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.learning import checkpoint
from kartrl.retro.console import RetroConsole
from kartrl.retro.levels import resolved, states_of
from kartrl.retro.library import find_game, game_in
from kartrl.retro.world import RetroWorld

pytest.importorskip("stable_retro", reason="no emulators on this platform")

AIRSTRIKER = "environment.id=retro/Airstriker-Genesis-v0"
STATES = ("Green.Act1", "Green.Act2", "Marble.Act1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which Airstriker was trained for a moment, with a start state of one's own to test on."""
    from kartrl.console.states import write_state

    folder = tmp_path_factory.mktemp("retro")
    console = RetroConsole(find_game("Airstriker-Genesis-v0"))
    console.begin_episode("Level1")
    for _ in range(200):
        console.run(0)
    (folder / "mine").mkdir()
    write_state(folder / "mine" / "Later.state", console.save())
    console.close()
    settings = [
        AIRSTRIKER, "levels.Level1=train", "levels../mine/Later.state=test",
        "run.agent_steps=600", "retro.time_limit=10", "model.hidden_size=16", "system.agents=1", "run.name=run",
    ]  # fmt: skip
    done = run("train", *(part for setting in settings for part in ("--set", setting)), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_states_are_trained_and_evaluated_apart(trained: Path) -> None:
    tags = {row.tag for row in logged(trained / "logs" / "run")}
    assert {"charts/episodic_return", "evaluation/train_return", "evaluation/test_return"} <= tags
    assert {"evaluation_train/Level1/episodic_return", "evaluation_test/Later/episodic_return"} <= tags
    assert (trained / "logs" / "run" / "best.pt").exists()


def test_commands_drive_a_retro_policy(trained: Path) -> None:
    table = run("evaluate", "-p", "run", "--episodes", "2", "--max-steps", "30", cwd=trained).stdout
    assert re.search(r"Later \(unseen\) +│ +2 │", table), table
    assert re.search(r"Level1 +│ +2 │", table)
    done = run("record", "-p", "run", "-l", "mine/Later.state", "--max-steps", "20", cwd=trained)
    assert done.returncode == 0, done.stderr
    assert (trained / "Later.mp4").stat().st_size > 1000
    wrong = run("evaluate", "-p", "run", "-l", "Level2", cwd=trained)
    assert wrong.returncode == 2
    assert wrong.stderr == "kartrl: Airstriker-Genesis-v0 has no start state 'Level2'; the nearest is 'Level1'\n"


def test_run_is_resumed_and_its_configuration_is_its_own(trained: Path) -> None:
    config = read([trained / "logs" / "run" / "config.cfg"])
    assert config.levels.uses == {"Level1": "train", "./mine/Later.state": "test"}
    assert (config.environment.frame_skip, config.environment.frame_stack, config.environment.height) == (4, 4, 84)
    assert read(base=dump(config)) == config
    done = run("train", "--resume", "run", "--set", "run.agent_steps=900", cwd=trained)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("uses", "found"),
    [
        ({}, {"Green.Act2": "train"}),
        ({"Green.*": "none"}, {"Green.Act2": "train"}),
        ({"*": "train", "Marble*": "test"}, {"Green.Act1": "train", "Green.Act2": "train", "Marble.Act1": "test"}),
        ({"Marble*": "test", "*": "train"}, dict.fromkeys(STATES, "train")),
        ({"*": "train", "*Act1": "none"}, {"Green.Act2": "train"}),
        ({"power on": "train", "Marble*": "test"}, {"power on": "train", "Marble.Act1": "test"}),
        ({"Marble*": "test"}, {"Marble.Act1": "test"}),
        ({"*": "none"}, {}),
    ],
)
def test_last_key_of_a_state_counts(uses: dict, found: dict) -> None:
    assert resolved(uses, STATES, "Green.Act2", "Sonic") == found


def test_states_that_are_missing_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key, message in {
        "green.act1": "Sonic has no start state 'green.act1'; the nearest is 'Green.Act1'",
        "Power on": "no start state 'Power on'; the nearest is 'power on'",
        "Blue*": "no start state 'Blue*'",
        "mine/*.state": "no start state 'mine/*.state'",
    }.items():
        with pytest.raises(UserError) as raised:
            states_of([key], STATES, "Sonic")
        assert message in str(raised.value)
    with pytest.raises(UserError, match="no start state of Airstriker-Genesis-v0 to train on"):
        load_world(read(overrides=[AIRSTRIKER, "levels.*=test"])).check()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.state").touch()
    assert len(states_of(["a/*.state", "Green*"], STATES, "Sonic")) == 3
    with pytest.raises(UserError, match="both called x; rename one"):
        states_of(["?/x.state"], STATES, "Sonic")


def test_levels_of_a_retro_configuration_have_its_syntax() -> None:
    for key, message in {"a/b.toml": "must be of .state files", "a/**/b.state": "without **"}.items():
        with pytest.raises(UserError, match=re.escape(message)):
            read(overrides=[AIRSTRIKER, f"levels.{key}=train"])
    for override in (
        "retro.reward=score",
        "retro.reward=score:x",
        "retro.reward=score:nan",
        "retro.reward=score:1:-inf",
        "retro.reward=score:1:2:3",
    ):
        with pytest.raises(UserError, match=r"\[retro\]|retro\."):
            read(overrides=[AIRSTRIKER, override])
    with pytest.raises(UserError, match=r"\[retro\] applies to retro/\.\.\. only"):
        read(overrides=["retro.players=2"])


def test_strangers_states_are_not_opened() -> None:
    config = read(overrides=[AIRSTRIKER, "levels.Level1=train", "levels../a.state=test", "levels../b.state=none"])
    own, left = load_world(config).openable(own=False)
    assert own.levels.uses == {"Level1": "train"}
    assert left == ["./a.state"]
    assert load_world(config).impersonal().levels.uses == {"Level1": "train"}


@pytest.mark.parametrize("stranger", [False, True])
def test_policies_of_states_that_are_gone_drive_others(
    stranger: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KARTRL_LOGS", raising=False)
    kind = ("environment.id=retro/Rapids-Nes-v0", "environment.frame_skip=4", "retro.actions=none left right")
    shutil.copy(find_game("Rapids-Nes-v0").state_file("Level02"), "gone.state")
    small = ("model.hidden_size=16", "evaluation.max_steps=5", "levels.gone.state=train")
    paths = {}
    for name, levels in {"both": ("levels.Level49=test",), "own": ()}.items():
        run_folder = tmp_path / ("elsewhere" if stranger else "logs") / name
        paths[name] = save_policy(run_folder, (*kind, *small, *levels))
        (run_folder / "config.cfg").write_text(dump(checkpoint.load(paths[name]).config))
    (tmp_path / "gone.state").unlink()
    left = f"{'are not opened' if stranger else 'are not found in this folder'} (gone.state); name them with -l\n"

    def drive(command: str, name: str, *arguments: str) -> tuple[int, str]:
        status = main([command, str(paths[name]), *arguments, "--episodes", "1"])
        said = capsys.readouterr()
        return status, said.out + said.err

    status, said = drive("evaluate", "both")
    assert status == 0
    assert left in said
    assert re.search(r"Level49 \(unseen\) +│ +1 │", said)
    assert "Level01" not in said
    status, said = drive("evaluate", "own")
    assert status == 2
    assert said.endswith(left)
    for name in ("both", "own"):
        status, said = drive("evaluate", name, "-l", "Level49")
        assert status == 0
        assert "Level49" in said
    assert drive("export", "both", "-o", "small.pt")[0] == 0
    assert "| Level49 | test |" in (tmp_path / "small.md").read_text()
    refused = "was trained only on states in files that are not opened (gone.state)"
    assert refused in drive("export", "own", "-o", "x.pt")[1]
    assert main(["export", str(paths["own"]), "-o", "x.pt", "--episodes", "0"]) == 0
    assert main(["evaluate", "x.pt"]) == 2, "not on a state that it may never have seen"


def first_observation(wrapper: str, *overrides: str) -> tuple[ObservationSpec, np.ndarray]:
    """What the network sees first at Level1 in this wrapper, and its kind."""
    still = ("retro.noop_max=0", "levels.Level1=train")
    env = make_env(read(overrides=[AIRSTRIKER, f"environment.wrapper={wrapper}", *still, *overrides]))
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    spec = ObservationSpec.of(env.observation_space)
    env.close()
    return spec, observation


def test_images_of_a_wrapper_are_seen_as_in_other_worlds() -> None:
    spec, image = first_observation("none")
    assert spec.shape == (84, 84, 4)
    assert image.max() > 200
    for wrapper in ("rewrapped:scaled", "rewrapped:channels_first"):
        other, seen = first_observation(wrapper)
        assert other == spec
        np.testing.assert_array_equal(seen, image)
    _, lower = first_observation("rewrapped:cropped")
    np.testing.assert_array_equal(lower, image[10:], "uint8 images stay as the wrapper leaves them")
    both, row = first_observation("rewrapped:with_mean")
    assert [(part.name, part.shape) for part in both.parts] == [("image", (84, 84, 4)), ("mean", (1,))]
    np.testing.assert_array_equal(row[: image.size], image.ravel())
    chosen, seen = first_observation("rewrapped:with_mean", "environment.observation_parts=image")
    assert chosen == spec
    np.testing.assert_array_equal(seen, image)


def test_game_without_states_begins_when_it_is_switched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / BUNDLED
    folder.mkdir()
    shutil.copy(GAMES / BUNDLED / "rom.sfc", folder)
    assert game_in(folder).default_state() is None
    monkeypatch.chdir(tmp_path)
    assert load_world(read(overrides=[f"environment.id=retro/{BUNDLED}"])).levels("train") == ("power on",)
    assert load_world(read(overrides=[f"environment.id=retro/./{BUNDLED}"])).levels("train") == ("power on",)
    with pytest.raises(UserError, match="retro/mine/game: no such folder"):
        load_world(read(overrides=["environment.id=retro/mine/game"])).levels("train")
    assert resolved({}, (), "power on", BUNDLED) == {"power on": "train"}
    old = read(overrides=[AIRSTRIKER])
    world = RetroWorld(old.replaced(levels=old.levels.model_copy(update={"found": {"": "train"}})))
    assert world.levels("train") == ("power on",)
    assert world.name_level("") == "power on"
    assert world.find_levels(["power on"]) == world.find_levels([""]) == ("power on",)


def test_game_is_named_by_its_name_alone_in_an_error() -> None:
    with pytest.raises(UserError, match=r"Nearest: retro/Airstriker-Genesis-v0$"):
        make_env(read(overrides=["environment.id=Airstriker-Genesis-v0"]))


def test_power_on_is_a_level_like_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a start state of another picture, it is driven where the console is switched on, and is unseen."""
    kind = ("environment.id=retro/Airstriker-Genesis-v0", "environment.frame_skip=4", "retro.actions=none left")
    small = ("model.hidden_size=16", "levels.Level1=train")
    policy = save_policy(tmp_path / "run", (*kind, *small, "levels.power on=test"))
    assert main(["evaluate", str(policy), "--episodes", "1", "--max-steps", "1", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert {row["level"]: row["split"] for row in result["levels"]} == {"Level1": "train", "power on": "test"}
    world = load_world(read(overrides=[AIRSTRIKER, "levels.power on=test", "levels.Level1=train"]))
    with contextlib.closing(world.open_env(world.all_levels())) as env:
        for seed in range(8):
            _, info = env.reset(seed=seed, options=reset_options(world, "power on"))
            assert (info["kartrl level"], info["lives"]) == ("power on", 0)
