"""Games of one's own: `kartrl retro new`, what it writes, and the mistakes that stable-retro accepts in silence."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from looks import describe_env
from policies import save_policy

from kartrl.cli import main
from kartrl.config import read
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.retro.library import atari_roms, find_game, folders, game_in, game_of
from kartrl.retro.own.mistakes import check_integration
from kartrl.sizing.inspection import remarks

stable_retro = pytest.importorskip("stable_retro", reason="no emulators on this platform")

RAPIDS = find_game("Rapids-Nes-v0").folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("rom", "name", "copied"),
    [
        (RAPIDS / "rom.nes", "Game.NES", "rom.nes"),
        (RAPIDS / "rom.nes", "dump.rom", "rom.nes"),
        (GAMES / BUNDLED / "rom.sfc", "kart.smc", "rom.sfc"),
        (folders()["Airstriker-Genesis-v0"] / "rom.md", "airstriker.bin", "rom.md"),
        (None, "breakout.bin", "rom.a26"),
    ],
)
def test_new_game_is_ready_to_train(
    rom: Path | None, name: str, copied: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if rom is None:
        pytest.importorskip("ale_py", reason="has the ROM")
        rom = atari_roms()[0][1]
    shutil.copy(rom, name)
    assert main(["retro", "new", "games/mine", name]) == 0
    written = capsys.readouterr().out
    assert "kartrl train --env retro/games/mine" in written
    assert files_in(here / "games") == ["mine", *sorted(f"mine/{file}" for file in (
        copied, "data.json", "metadata.json", "rom.sha", "scenario.json"))]  # fmt: skip
    config = read(overrides=["environment.id=retro/games/mine"])
    load_world(config).check()
    (line,) = remarks(config, describe_env(config))
    assert "has no reward, so that nothing is learned: describe it in " in line
    assert f"{here}/games/mine/scenario.json, or set retro.reward" in line
    if copied == "rom.nes":
        described = read(overrides=["environment.id=retro/Rapids-Nes-v0"])
        assert not remarks(described, describe_env(described))
    stable_retro.data.Integrations.clear_custom_paths()
    stable_retro.data.Integrations.add_custom_path(str(here / "games"))
    custom = stable_retro.data.Integrations.CUSTOM_ONLY
    env = stable_retro.make("mine", inttype=custom, render_mode="rgb_array")
    env.reset()
    assert env.step(env.action_space.sample())[1:] == (0.0, False, False, {})
    env.close()


def test_new_games_examples_are_valid(here: Path) -> None:
    assert main(["retro", "new", "mine", str(RAPIDS / "rom.nes")]) == 0
    for name in ("data.json", "scenario.json"):
        content = json.loads((here / "mine" / name).read_text())
        assert content["_comment"]
        (here / "mine" / name).write_text(json.dumps(content | content["_example"]))
    check_integration(game_in(here / "mine"))


def test_new_game_with_a_known_name_is_ones_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retro", "new", "Airstriker-Genesis-v0", str(RAPIDS / "rom.nes")]) == 0
    assert "--env retro/./Airstriker-Genesis-v0\n" in capsys.readouterr().out
    load_world(read(overrides=["environment.id=retro/./Airstriker-Genesis-v0"])).check()


@pytest.mark.parametrize(
    ("folder", "rom", "message"),
    [
        ("new/game", "missing.nes", "missing.nes: cannot read this ROM"),
        ("new/game", ".", ".: not a file"),
        ("new/game", "/dev/zero", "not a file"),
        ("new/game", "empty.nes", "empty.nes: the emulator of Nes, fceumm_libretro, cannot start this ROM"),
        ("new/game", "text.nes", "text.nes: the emulator of Nes, fceumm_libretro, cannot start this ROM"),
        ("new/game", "text.txt", "its ending does not tell the console; name it by that: .nes, "),
        ("new/game", "text.nds", "does not run games for NintendoDs"),
        ("new/game", "rom.zip", "rom.zip: an archive; unpack the ROM first"),
        ("there", "rom.nes", "there exists; choose a new folder"),
        ("link", "rom.nes", "link exists; choose a new folder"),
        (".", "rom.nes", "exists; choose a new folder"),
        ("text.nes/game", "rom.nes", "text.nes/game: cannot make this folder"),
        (f"new/{'long' * 99}", "rom.nes", "cannot make this folder (File name too long)"),
    ],
)
def test_new_game_that_fails_leaves_nothing(
    folder: str, rom: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.nes").touch()
    for name in ("text.nes", "text.txt", "text.nds"):
        Path(name).write_text("text")
    Path("rom.zip").write_bytes(b"PK\3\4")
    shutil.copy(RAPIDS / "rom.nes", here)
    Path("there").mkdir()
    Path("link").symlink_to("nowhere")
    before = files_in(here)
    assert main(["retro", "new", folder, rom]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not said.out
    assert files_in(here) == before


@pytest.mark.parametrize(
    ("file", "place", "value", "message"),
    [
        ("scenario", "rewrad", {}, "scenario.json: rewrad: unknown key; the nearest is 'reward'"),
        ("scenario", "reward.variabels", {}, "reward.variabels: unknown key; the nearest is 'variables'"),
        ("scenario", "reward.variables.score.rewards", 1, "reward.variables.score.rewards: unknown key"),
        ("scenario", "done.variables.lives.refrence", 1, "done.variables.lives.refrence: unknown key"),
        ("scenario", "done.nodes", {"a": {"conditon": "all"}}, "done.nodes.a.conditon: unknown key"),
        ("scenario", "done", [], "done must be an object"),
        ("scenario", "rewards", [{}], "reward has no effect beside rewards"),
        ("scenario", "crops", [], None),
        ("scenario", "crops", 5, "crops must be a list"),
        ("scenario", "crop", [0.5, 0, 1, 1], "crop: must be X, Y, WIDTH and HEIGHT"),
        ("scenario", "crop", 5, "crop: must be X, Y, WIDTH and HEIGHT"),
        ("scenario", "crop", [0, 0, 240, 224], None),
        (
            "scenario",
            "crop",
            [0, 0, 241, 0],
            "crop: 0 0 241 0 is partly outside of the screen, which is 240 pixels wide",
        ),
        ("scenario", "crop", [10, 1, 0, 224], "crop: 10 1 0 224 is partly outside of the screen"),
        ("scenario", "scripts", ["a.lua"], "scripts must be the Lua files of a script in reward or done"),
        ("scenario", "reward.script", "lua:reward", "reward.variables has no effect beside reward.script"),
        ("scenario", "done", {"script": "lua:d", "nodes": {"a": {}}}, "done.nodes has no effect beside done.script"),
        ("scenario", "reward.time", {"reward": 0}, "reward.time: has no effect without reward"),
        ("scenario", "reward.time", {"reward": -1}, None),
        ("scenario", "done.variables.lives", {"reference": 3}, "done.variables.lives.op is missing"),
        ("scenario", "actions", [["LEFT"]], "actions must be groups of combinations of buttons"),
        ("scenario", "actions", 5, "actions must be groups"),
        ("scenario", "actions", [[[], ["LEFT"]], []], "actions must be groups"),
        ("scenario", "reward.variables.score.reward", float("nan"), "score.reward must be a number, not nan"),
        ("scenario", "reward.variables.score.penalty", 10**400, "score.penalty must be a number"),
        ("scenario", "done.variables.lives", {"op": "equal", "reference": 0.5}, "reference must be a whole number"),
        ("scenario", "actions", [[[], ["LEFFT"]]], "scenario.json: actions: no such button: 'LEFFT'"),
        ("scenario", "reward.variables.score.reward", 0, "reward.variables.score: has no effect without"),
        ("scenario", "reward.variables.score.reference", 3, "score.reference has no effect with op None"),
        ("scenario", "reward.variables.lives", {"op": "zero", "penalty": 1}, "lives.penalty has no effect"),
        ("scenario", "reward.variables.lives", {"measurement": "absolute", "penalty": 1}, "never negative"),
        ("scenario", "reward.variables.lives", {"op": "sign", "penalty": 1}, None),
        ("scenario", "reward.variables.lives", {"penalty": 1}, None),
        ("scenario", "done.variables.lives", {"op": "negative"}, "lives: op negative never holds.* 0 to 255"),
        ("scenario", "done.variables.lives", {"op": "negative", "measurement": "delta"}, None),
        ("scenario", "done.variables.lives", {"op": "equal", "reference": 256}, "op equal never holds"),
        ("scenario", "done.variables.lives", {"op": "equal", "reference": 255}, None),
        ("scenario", "done.variables.score", {"op": "greater-than", "reference": 99}, "op greater-than never holds"),
        ("scenario", "done.variables.score", {"op": "greater-or-equal", "reference": 99}, None),
        ("scenario", "done.variables.lives.reference", 2, "lives.reference has no effect with op zero"),
        ("scenario", "_note", "anything", None),
        ("data", "infos", {}, "data.json: infos: unknown key; the nearest is 'info'"),
        ("data", "info.lives.adress", 1, "info.lives.adress: unknown key; the nearest is 'address'"),
        ("data", "info.lives", {"type": "|u1"}, "data.json: info.lives: .*'address' is missing"),
        ("data", "info.lives.type", "u1", "invalid type 'u1'; one is |u1"),
        ("data", "info.lives.type", "u16", "data.json: info.lives: .*invalid type 'u16'"),
        ("data", "info.lives.address", "1", "data.json: info.lives: "),
        ("data", "info.lives.address", 4096, "data.json: lives: its address is not in the memory"),
        ("data", "info._comment", "text", "info._comment must be an object"),
        ("metadata", "default_state", "Level1", "metadata.json: default_state: no start state 'Level1'; the nearest"),
        ("metadata", "defualt_state", "Level01", "metadata.json: defualt_state: unknown key"),
        ("metadata", "default_player_state", ["Level02", "Levle"], "default_player_state: no start state 'Levle'"),
        ("metadata", "default_state", None, None),
    ],
)
def test_mistake_in_ones_own_game_is_named(file: str, place: str, value: Any, message: str | None, here: Path) -> None:
    shutil.copytree(RAPIDS, here / "mine")
    path = here / "mine" / f"{file}.json"
    content = json.loads(path.read_text())
    *way, last = place.split(".")
    target = content
    for part in way:
        target = target[part]
    target[last] = value
    path.write_text(json.dumps(content))
    world = load_world(read(overrides=["environment.id=retro/mine", "levels.Level02=train"]))
    if message is None:
        world.check()
        return
    with pytest.raises(UserError, match=message) as raised:
        world.check()
    assert f"{file}.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_rom_that_rom_sha_does_not_name_is_an_error(here: Path) -> None:
    shutil.copytree(RAPIDS, here / "mine")
    (here / "mine" / "rom.sha").write_text("0" * 40)
    with pytest.raises(UserError, match=r"mine/rom\.nes: its SHA-1, \w{40}, is not in rom\.sha; write it there, or"):
        game_in(here / "mine").rom()
    (here / "mine" / "rom.sha").write_text((RAPIDS / "rom.sha").read_text().upper())
    assert game_in(here / "mine").rom() == here / "mine" / "rom.nes"


def test_rom_of_ones_own_game_is_in_its_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a ROM of a game with the same name was imported."""
    monkeypatch.setenv("KARTRL_DATA", str(here / "data"))
    name = "Airstriker-Genesis-v0"
    assert main(["import-rom", str(find_game(name).rom())]) == 0
    shutil.copytree(find_game(name).folder, here / name)
    assert game_in(here / name).rom() == here / name / "rom.md"


def test_policy_of_ones_own_game_elsewhere_names_the_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(RAPIDS, here / "rapids")
    path = save_policy(here / "run", ("environment.id=retro/rapids",))
    (here / "rapids").rename(here / "elsewhere")
    assert main(["evaluate", str(path)]) == 2
    assert "nor is there a folder of this name in the current one" in capsys.readouterr().err


def test_key_that_is_there_twice_is_an_error(here: Path) -> None:
    shutil.copytree(RAPIDS, here / "mine")
    (here / "mine" / "data.json").write_text('{"info": {"a": {"address": 0, "address": 1, "type": "|u1"}}}')
    with pytest.raises(UserError, match=r"data\.json: cannot read it \('address' is there twice\)"):
        check_integration(game_in(here / "mine"))


def test_mistake_in_a_played_game_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shutil.copytree(RAPIDS, here / "mine")
    (here / "mine" / "scenario.json").write_text('{"dones": {}}')
    assert main(["play", "--game", "retro/mine"]) == 2
    assert "dones: unknown key" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["mine", "games/mine"])
def test_nearest_game_may_be_ones_own(folder: str, here: Path) -> None:
    shutil.copytree(RAPIDS, here / folder)
    with pytest.raises(UserError, match=rf"the nearest is '{folder}'"):
        game_of(f"{folder}e")
