"""`kartrl play --game retro/...`: in a window on SDL's dummy display; movies are those of stable-retro."""

import io
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pygame
import pytest
from players import on_stable_retro
from policies import save_policy

from kartrl.cli import main
from kartrl.console.movie import read_movie
from kartrl.console.picture import shaped
from kartrl.console.states import read_state
from kartrl.errors import UserError
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import find_game, game_in
from kartrl.retro.memory_view import MemoryView, Typed
from kartrl.retro.play import Play, keys_of
from kartrl.viewer.rival import policy_rival
from kartrl.viewer.window import Window

pytest.importorskip("stable_retro", reason="no emulators on this platform")

AIRSTRIKER = "Airstriker-Genesis-v0"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def console() -> Iterator[RetroConsole]:
    made = RetroConsole(find_game(AIRSTRIKER))
    yield made
    made.close()


def test_movie_plays_the_same_on_stable_retro(console: RetroConsole, here: Path) -> None:
    game, dice = console.game, random.Random(0)
    played = Play(console, ["Level1"])
    for _ in range(60):
        buttons = dice.getrandbits(12)
        for _ in range(10):
            played.advance(buttons)
    played.save_movie(here / "a.bk2")
    assert len(read_movie(here / "a.bk2", game.system.buttons).inputs) == 601
    name, players, frames, _, values = on_stable_retro(game.folder, here / "a.bk2")
    assert (name, players, frames) == (AIRSTRIKER, 1, 601)
    assert values == console.info()
    score, seen = played.total, console.screen()
    again = Play(console, [], read_movie(here / "a.bk2", game.system.buttons))
    while not again.over:
        again.advance(0)
    assert again.state == "Level1"
    assert (again.total, console.info()) == (score, values)
    assert np.array_equal(console.screen(), seen)


def test_keys_play_and_save(console: RetroConsole, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = Window(AIRSTRIKER)
    screen = Play(console, ["Level1"], window=window)

    def press(*keys: int) -> None:
        for key in keys:
            screen.take(pygame.event.Event(pygame.KEYDOWN, key=key))

    press(pygame.K_RIGHT)
    for _ in range(30):
        screen.tick()
    before = console.info()
    screen.draw()
    drawn = window.pixels()
    assert drawn[window.picture.top + 20 : window.picture.bottom, : window.picture.right].any()
    assert drawn[:, window.panel.left :].any()
    press(pygame.K_F2, pygame.K_F3, pygame.K_p)
    screen.tick()
    assert console.info() == before
    assert screen.written == [Path(f"{AIRSTRIKER}-Level1.bk2"), Path(f"{AIRSTRIKER}-Level1.state")]
    movie = read_movie(screen.written[0], console.game.system.buttons)
    assert movie.inputs == (0,) + (128,) * 30
    assert read_state(screen.written[1]) == console.save()
    press(pygame.K_r, pygame.K_n, pygame.K_ESCAPE)
    assert not screen.open
    window.close()
    assert main(["play", "--game", f"retro/{AIRSTRIKER}", "--replay", str(screen.written[0]), "-o", "a.mp4"]) == 0
    assert (here / "a.mp4").stat().st_size > 1000


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy for Airstriker that has learned nothing."""
    settings = (f"environment.id=retro/{AIRSTRIKER}", "retro.actions=none left B", "model.hidden_size=16")
    return save_policy(tmp_path_factory.mktemp("policy"), settings)


def test_policy_plays_beside_a_player(
    console: RetroConsole,
    policy: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From the same start state; a restart begins both again, and a movie is filmed beside it."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = Window(AIRSTRIKER)
    how: Any = {"greedy": True, "device": "cpu", "overrides": ["retro.noop_max=0"]}
    with policy_rival(policy, ["Level1"], fits=lambda name: name == f"retro/{AIRSTRIKER}", **how) as rival:
        screen = Play(console, ["Level1"], window=window, rival=rival)
        begun = screen.picture()
        own, theirs = begun[:, :320], begun[:, 328:]
        assert np.array_equal(own, theirs)
        for _ in range(120):
            screen.tick()
        screen.draw()
        assert screen.picture().shape == begun.shape == (224, 648, 3)
        assert not np.array_equal(screen.picture()[:, 328:], theirs)
        screen.take(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_r))
        assert np.array_equal(screen.picture(), begun)
        for _ in range(30):
            screen.tick()
        screen.save_movie(here / "mine.bk2")
    window.close()
    both = ["play", "--game", f"retro/{AIRSTRIKER}", "--replay", "mine.bk2", "-p", str(policy), "-o", "both.mp4"]
    assert main(both) == 0
    assert "Returns: 0 (you), 0 (policy, 1,000 agent steps)" in capsys.readouterr().out
    with av.open("both.mp4") as video:
        assert video.streams.video[0].frames == 31
        assert (video.streams.video[0].width, video.streams.video[0].height) == (648, 224)


def test_policy_of_another_game_is_an_error(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ale_py", reason="has the ROM")
    game = find_game("Pong-Atari2600-v0")
    console = RetroConsole(game)
    Play(console, ["Start"]).save_movie(Path("a.bk2"))
    console.close()
    assert main(["play", "--game", f"retro/{game.name}", "--replay", "a.bk2", "-p", str(policy), "-o", "a.mp4"]) == 2
    assert f"a policy for retro/{AIRSTRIKER}; choose the game with --game retro/{AIRSTRIKER}" in capsys.readouterr().err


def test_narrow_screens_are_shown_wider_and_keys_are_named() -> None:
    assert shaped(np.zeros((210, 160, 3), np.uint8)).shape == (210, 320, 3)
    assert shaped(np.zeros((224, 256, 3), np.uint8)).shape == (224, 256, 3)
    assert ("x", "button") in keys_of(find_game("Pong-Atari2600-v0").system.buttons)
    assert ("v", "c") in keys_of(find_game(AIRSTRIKER).system.buttons)


ROUND = ["4 b", "4 left", "4 b", "4 right"]
PASTED = re.compile(r' (\d+)  "NAME": (\{.*\}),')


def test_memory_commands_are_taken_beside_a_window(console: RetroConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    reader, writer = os.pipe()
    window = Window(AIRSTRIKER)
    with open(reader, "rb") as typed, open(writer, "wb", buffering=0) as keyboard:
        screen = Play(console, ["Level1"], window=window)
        screen.typed = Typed(typed.fileno())
        screen.tick()
        keyboard.write(b"= 3\nlis")
        screen.tick()
        keyboard.write(b"t\nquit\n")
        screen.tick()
    window.close()
    assert not screen.open


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("= three", "no such command: '= three'"),
        ("= --3", "no such command: '= --3'"),
        ("lst", "the nearest is 'list'"),
        ("60 jump", "60 jump: no such button: 'JUMP'"),
        ("60 b left", "no such command"),
        ("up down", "no such command"),
    ],
)
def test_wrong_memory_command_names_the_nearest(console: RetroConsole, line: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        list(MemoryView(console, console.advance, lambda: None).take(line))


@pytest.mark.parametrize(
    ("game", "name", "commands"),
    [
        (AIRSTRIKER, "lives", ["= 3", "360 b", "= 2", "360 b", "= 1"]),
        (AIRSTRIKER, "score", ["= 0", *ROUND * 16, "= 20", *ROUND * 10, "= 40"]),
        (BUNDLED, "speed", ["= 0", "60 b", "up", "60 b", "= 776", "30 left+b", "= 664"]),
    ],
)
def test_memory_search_finds_a_variable(
    game: str,
    name: str,
    commands: list[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where data.json says that it is; a line that is pasted into another data.json has the value that it printed."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # no display: no window
    own = game_in(GAMES / BUNDLED) if game == BUNDLED else find_game(game)
    mine, state = here / "mine", "MarioCircuit.Act1" if game == BUNDLED else "Level1"
    shutil.copytree(own.folder, mine)
    shutil.copy(own.rom(), mine / f"rom.{own.system.endings[0]}")
    sought = json.loads((mine / "data.json").read_text())["info"][name]
    (mine / "data.json").unlink()
    (mine / "scenario.json").unlink()
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*commands, "list"])))
    assert main(["play", "--memory", "--game", "retro/./mine", "-l", state]) == 0
    lines = {place: value for value, place in PASTED.findall(capsys.readouterr().out)}
    assert json.dumps(sought) in lines
    (mine / "data.json").write_text(f'{{"info": {{"found": {json.dumps(sought)}}}}}')
    frames = [command for command in commands if command[0].isdigit()]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*frames, "values"])))
    assert main(["play", "--memory", "--game", "retro/./mine", "-l", state]) == 0
    assert capsys.readouterr().out.rstrip("> \n").endswith(f"found {lines[json.dumps(sought)]}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--game", f"retro/{AIRSTRIKER}", "--ghost", "x"], "--ghost and --opponents are for the kart"),
        (["--game", f"retro/{AIRSTRIKER}", "-p", "x", "--alone"], "--alone cannot be combined with RUN"),
        (["--game", f"retro/{AIRSTRIKER}", "-p", "no.pt", "-o", "a.bk2"], "no.pt"),
        (["--game", f"retro/{AIRSTRIKER}", "-o", "a.mp4"], "must end in .bk2"),
        (["--memory"], "--memory is for retro games: name one with --game retro/NAME"),
        (["--game", f"retro/{AIRSTRIKER}", "--memory", "-o", "a.bk2"], "cannot be combined with RUN, --replay or -o"),
        (["--game", f"retro/{AIRSTRIKER}", "--replay", "no.bk2", "-o", "a.mp4"], "no.bk2: cannot read this movie"),
        (["--game", "retro/Airstriker", "--replay", "a.bk2", "-o", "a.mp4"], "nearest is 'Airstriker-Genesis-v0'"),
    ],
)
def test_what_cannot_be_played_is_an_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", *arguments]) == 2
    assert message in capsys.readouterr().err
