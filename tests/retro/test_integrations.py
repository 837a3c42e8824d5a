"""Integrations: all of stable-retro's are read; mistakes that it accepts in silence are errors that name the place."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kartrl.errors import UserError
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.retro.buttons import Combinations
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import Game, find_game, folders, game_in
from kartrl.retro.scenario import load_scenario
from kartrl.retro.systems import systems

pytest.importorskip("stable_retro", reason="no emulators on this platform")


def test_all_scenarios_of_stable_retro_are_read() -> None:
    scripted = 0
    for folder in folders().values():
        names = json.loads((folder / "data.json").read_text())["info"] if (folder / "data.json").exists() else {}
        for file in sorted({*folder.glob("*.json")} - {folder / "data.json", folder / "metadata.json"}):
            scripted += load_scenario(file, [*names]).scripted
    assert 40 <= scripted <= 60


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ({"done": {"variables": {"lives": {"reference": 3}}}}, r"done\.variables\.lives\.op is missing"),
        ({"done": {"variables": {"lives": {"op": "equals"}}}}, r"done\.variables\.lives\.op.*'equals'.*'equal'"),
        ({"done": {"nodes": {"a": {"variables": {"lifes": {"op": "zero"}}}}}}, r"nodes\.a.*no 'lifes'.*'lives'"),
        ({"done": {"condition": "al"}}, r"done\.condition: unknown 'al'"),
        ({"done": {"condition": "all"}}, r"done: all of no variables"),
        ({"reward": {"variables": {"Score": {"reward": 1}}}}, r"reward\.variables\.Score.*nearest is 'score'"),
        ({"reward": {"variables": {"score": {"reward": "1"}}}}, r"score\.reward must be a number, not '1'"),
        ({"reward": {"variables": {"score": {"measurement": "Delta"}}}}, r"measurement: unknown 'Delta'.*'delta'"),
        ({"rewards": [{}, {"variables": {"score": {"op": "up"}}}]}, r"score\.op: unknown 'up'"),
        ({"reward": {"time": {"penalty": 0.1}}}, r"time\.penalty has no effect.*negative reward\.time\.reward"),
        ({"reward": {"script": "lua:reward"}}, "scripts is missing"),
        ({"done": {"script": "lua:done"}, "scripts": ["a.lua"]}, "scripts: there is no file 'a.lua' beside it"),
        ({"crop": [1, 2, 3]}, r"crop: must be X, Y, WIDTH and HEIGHT"),
        ({"crops": [[0, 0, 5, 5], [0, -1, 5, 5]]}, r"crop: must be X, Y, WIDTH and HEIGHT"),
        ([], "not a scenario"),
        ("{", "cannot read"),
    ],
)
def test_scenario_with_a_mistake_is_an_error(tmp_path: Path, scenario: Any, message: str) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario))
    with pytest.raises(UserError, match=rf"(?s)scenario\.json.*{message}") as raised:
        load_scenario(file, ["lives", "score"])
    assert "\n" not in str(raised.value)


def test_unknown_button_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'STRT'; the nearest is 'START'"):
        Combinations([[[], ["STRT"]]], systems()["Genesis"].buttons, "scenario.json")


def test_combinations_count_as_in_stable_retro() -> None:
    """Also where two groups have the same buttons, of which the first one counts, and where one is named twice."""
    counts = {"Genesis": 126, "Snes": 468, "Nes": 36, "GameBoy": 72, "GbAdvance": 288, "PCEngine": 117, "Atari2600": 18}
    for name, count in counts.items():
        system = systems()[name]
        combinations = Combinations(system.actions, system.buttons, name)
        actions = combinations.discrete()
        assert len(actions) == len(set(actions)) == count
        assert all(combinations.filtered(action) == action for action in actions)
    genesis = systems()["Genesis"]
    twice = Combinations([[[], ["UP"], ["UP"]], [["UP"]], [[], ["A"], ["B"]]], genesis.buttons, "")
    assert twice.discrete() == [0, 1, 2, 16, 17, 18]
    assert twice.filtered(16 | 1 | 2) == 16, "A and B together are no combination: neither is held"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Airstriker-Genesis", "no game 'Airstriker-Genesis'; the nearest is 'Airstriker-Genesis-v0'"),
        ("airstriker", "the nearest is 'Airstriker-Genesis-v0'"),
        ("SuperMarioBros-Nes", "the nearest is 'SuperMarioBros-Nes-v0'"),
        ("MortalKombat2-Arcade-v0", "does not run games for Arcade"),
    ],
)
def test_unknown_game_is_an_error_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_game(name)


def test_missing_rom_is_an_error_that_says_how_to_import() -> None:
    with pytest.raises(UserError, match=r"no ROM of SuperMarioBros-Nes-v0.*import-rom FILE.*SHA-1 facee9c5"):
        find_game("SuperMarioBros-Nes-v0").rom()


def test_rom_of_another_revision_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    folder = tmp_path / "retro" / "Airstriker-Genesis-v0"
    folder.mkdir(parents=True)
    (folder / "rom.md").write_bytes(b"SEGA")
    with pytest.raises(UserError, match=r"another revision of Airstriker-Genesis-v0.*import-rom"):
        find_game("Airstriker-Genesis-v0").rom()


def test_unknown_state_and_scenario_are_errors() -> None:
    game = find_game("Airstriker-Genesis-v0")
    assert game.default_state() == "Level1"
    with pytest.raises(UserError, match="no start state 'Level2'; the nearest is 'Level1'"):
        game.state_file("Level2")
    with pytest.raises(UserError, match=r"no scenario 'contest'; it has scenario"):
        RetroConsole(game, "contest")


@pytest.mark.parametrize("game", ["Airstriker-Genesis-v0", "Breakout-Atari2600-v0", BUNDLED])
def test_isolated_console_equals_one_in_this_process(game: str) -> None:
    """Frames, memory of all blocks, values, reward and end; states of either continue in the other."""
    found: Game = game_in(GAMES / BUNDLED) if game == BUNDLED else find_game(game)
    consoles = RetroConsole(found), RetroConsole(found, isolated=True)
    random = np.random.default_rng(0)
    for begin in range(2):
        for console in consoles:
            console.begin_episode(found.default_state())
        for step in range(60):
            buttons = int(random.integers(4096))
            assert len({console.advance(buttons) for console in consoles}) == 1
            assert consoles[0].info() == consoles[1].info()
            assert np.array_equal(consoles[0].screen(), consoles[1].screen())
            first, second = (
                {start: bytes(block) for start, block in console.opened().memory.items()} for console in consoles
            )
            assert first == second
            if step == 30:
                state = consoles[begin].save()
                for console in consoles:
                    console.restore(state)
    for console in consoles:
        console.close()
