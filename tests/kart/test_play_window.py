"""The window of `kartrl play`: on SDL's dummy display, and the command on a virtual display driven by xdotool."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import wait_for
from players import CIRCUIT, Player
from policies import KART, save_policy
from screens import Screen, colours, needs_screen, on_screen

from kartrl.console.libretro import BUTTONS
from kartrl.console.movie import read_movie
from kartrl.kart.console import KartConsole
from kartrl.kart.play.stage import Options, Stage
from kartrl.viewer.pace import MOST
from kartrl.viewer.pad import BIT, gamepad_buttons
from kartrl.viewer.window import HEIGHT, PANEL, WIDTH, pygame

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"
)


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Player]]:
    """Opens the window; closed when the test ends."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:

        def new(**options: object) -> Player:
            one = Player(**options)
            stack.callback(one.window.close)
            stack.enter_context(one.stage)
            return one

        yield new


def below(stage: Stage) -> str:
    """The circuit below the one with which the list begins."""
    choices = stage.choices()
    return choices[choices.index(CIRCUIT) + 1]


def part(picture: np.ndarray, place: pygame.Rect) -> np.ndarray:
    return picture[place.top : place.bottom, place.left : place.right]


def test_keys_drive_and_the_window_shows_the_consoles_screen(player: Callable[..., Player]) -> None:
    one = player(circuits=(CIRCUIT,))
    one.wait(30)
    assert one.race["tick"] == 1, "the clock waits for the first key"
    one.hold(pygame.K_x, 60)
    assert one.race["tick"] == 61
    assert one.race["speed"] > 300
    shown = part(one.look(), one.window.picture)
    assert one.window.scale >= 2
    assert (shown == one.large()).all()
    angle = one.race["kart_angle"]
    one.app.take(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_UP))
    one.hold(pygame.K_RIGHT, 20)
    assert 0 < (one.race["kart_angle"] - angle) % 65536 < 32768
    one.hold(pygame.K_SPACE, 3)
    assert one.race["hop"] > 0


def test_pause_restart_and_focus(player: Callable[..., Player]) -> None:
    one = player(circuits=(CIRCUIT,))
    one.hold(pygame.K_x, 40)
    one.press(pygame.K_p)
    tick = one.race["tick"]
    one.wait(10)
    assert one.race["tick"] == tick
    assert (part(one.look(), one.window.picture) != one.large()).any(), "PAUSE is shown"
    one.press(pygame.K_p)
    one.wait(10)
    assert one.race["tick"] > tick
    one.app.take(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_x))
    one.app.take(pygame.event.Event(pygame.WINDOWFOCUSLOST))
    tick = one.race["tick"]
    one.wait(10)
    assert one.race["tick"] == tick, "another window is in use"
    one.press(pygame.K_r)
    one.wait(5)
    assert one.race["tick"] == 1, "at the start again, and the key that was held is forgotten"


@pytest.mark.parametrize("size", [(1056, 672), (1920, 1080), (700, 500), (300, 200)])
def test_any_size_of_the_window(player: Callable[..., Player], size: tuple[int, int]) -> None:
    one = player(circuits=(CIRCUIT,))
    pygame.display.set_mode(size, pygame.RESIZABLE)
    one.look()
    scale = one.window.picture.width // WIDTH
    assert one.window.picture.size == (WIDTH * scale, HEIGHT * scale)
    assert scale == max(1, min(size[0] // (WIDTH + PANEL), size[1] // HEIGHT))
    one.press(pygame.K_F3)
    one.look()


def test_each_race_is_saved_as_a_movie(player: Callable[..., Player], tmp_path: Path) -> None:
    output = tmp_path / "drive.bk2"
    output.write_bytes(b"an older one")
    one = player(circuits=(CIRCUIT,), output=output)
    one.press(pygame.K_r)  # nothing driven: nothing kept
    one.hold(pygame.K_x, 50)
    one.press(pygame.K_r)
    one.hold(pygame.K_x, 70)
    one.press(pygame.K_F2)
    one.hold(pygame.K_x, 10)
    one.press(pygame.K_ESCAPE)
    assert one.app.shelf.written == [tmp_path / f"drive-{number}.bk2" for number in (2, 3)]
    assert output.read_bytes() == b"an older one"
    assert [len(read_movie(file).inputs) for file in one.app.shelf.written] == [51, 81 + 1]
    assert read_movie(one.app.shelf.written[0]).inputs == (0, *[BIT["B"]] * 50)


def test_key_saves_a_movie(player: Callable[..., Player], tmp_path: Path) -> None:
    one = player(circuits=(CIRCUIT,))
    one.hold(pygame.K_x, 30)
    one.press(pygame.K_F2)
    one.press(pygame.K_r)
    one.hold(pygame.K_x, 40)
    one.press(pygame.K_F2)
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{CIRCUIT}-2.bk2", f"{CIRCUIT}.bk2"]
    (tmp_path / "f").mkdir()
    os.chdir(tmp_path / "f")
    (tmp_path / "f").rmdir()
    one.press(pygame.K_r)
    one.hold(pygame.K_x, 40)
    one.press(pygame.K_F2)
    one.look()
    assert len(one.app.shelf.written) == 2, "a failed write is reported, and the game continues"


def test_start_state_is_saved_and_overwriting_is_confirmed(player: Callable[..., Player], tmp_path: Path) -> None:
    one = player(circuits=(CIRCUIT,))
    one.hold(pygame.K_x, 90)
    one.press(pygame.K_F3)
    x, y = one.race["x"], one.race["y"]
    one.press(pygame.K_RETURN)
    one.look()
    one.type("bends/one")
    one.press(pygame.K_RETURN)
    one.look()
    assert not list(tmp_path.iterdir()), "no such folder: reported, not written"
    one.press(*[pygame.K_BACKSPACE] * 9)
    one.type("bend")
    one.press(pygame.K_RETURN)
    file = tmp_path / "bend.state"
    assert file.is_file()
    tick = one.race["tick"]
    one.wait(5)
    assert one.race["tick"] == tick + 5, "the race continues"
    file.write_bytes(b"precious")
    for answer, kept in ((pygame.K_ESCAPE, True), (pygame.K_RETURN, False)):
        one.press(pygame.K_F3)
        one.type("bend")
        one.press(pygame.K_RETURN)
        one.look()
        assert file.read_bytes() == b"precious"
        one.press(answer)
        assert (file.read_bytes() == b"precious") == kept
    console = KartConsole("bundled", str(file))
    assert abs(console.race()["x"] - x) + abs(console.race()["y"] - y) < 40
    console.close()


def test_menu_leads_to_races_and_back(player: Callable[..., Player]) -> None:
    one = player()
    pictures = [one.look()]
    one.press(pygame.K_DOWN)
    pictures.append(one.look())
    assert (pictures[0] != pictures[1]).mean() > 0.1, "another circuit's pictures"
    one.press(pygame.K_RETURN)
    one.wait(30)
    assert one.race["tick"] == 1, "the key that chose does not start the race"
    block = one.stage.console.block()
    one.stage.console.load(below(one.stage))
    assert one.stage.console.block().title == block.title
    one.press(pygame.K_ESCAPE)
    assert (one.look() == pictures[1]).mean() > 0.99
    one.press(pygame.K_UP, pygame.K_UP)
    one.look()


def test_closing_the_window_ends_the_command(player: Callable[..., Player], tmp_path: Path) -> None:
    one = player(circuits=(CIRCUIT,), output=tmp_path / "drive.bk2")
    one.hold(pygame.K_x, 20)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    one.app.run()
    menu = player()
    for event in (pygame.QUIT, pygame.MOUSEMOTION):
        menu.app.take(pygame.event.Event(event, pos=(0, 0), rel=(0, 0), buttons=(0, 0, 0)))
    assert not menu.app.open, "what comes after it does not open it again"
    assert len(read_movie(tmp_path / "drive.bk2").inputs) >= 21


def test_race_against_a_policy_ghost(player: Callable[..., Player], tmp_path: Path) -> None:
    """The ghost drives independently of the player, is on the minimap, and the window shows the gap."""
    one = player(circuits=(CIRCUIT,), checkpoint=save_policy(tmp_path, KART))
    alone = one.look()
    one.hold(pygame.K_x, 90)
    assert one.race["opponents"] == 0x81
    assert abs(one.race["opponent1_x"] - one.race["x"]) + abs(one.race["opponent1_y"] - one.race["y"]) > 3
    assert (part(one.look(), one.window.panel) != part(alone, one.window.panel)).any()
    one.press(pygame.K_r)
    assert one.race["tick"] == 1


def test_movie_is_replayed(player: Callable[..., Player], movie_file: Path) -> None:
    one = player(replay=movie_file)
    one.hold(pygame.K_x, 300)
    assert one.race["tick"] == 301, "it waits for no key"
    one.wait(500)
    assert one.race["tick"] == 601
    assert (part(one.look(), one.window.picture) != one.large()).any(), "its end is shown"
    one.press(pygame.K_F2, pygame.K_r)
    one.wait(10)
    assert one.race["tick"] < 20
    assert one.app.shelf.written == []


def test_gamepads_map_to_the_joypad() -> None:
    idle = dict.fromkeys(range(6), 0)
    assert gamepad_buttons([], idle) == set()
    assert gamepad_buttons([pygame.CONTROLLER_BUTTON_A, pygame.CONTROLLER_BUTTON_DPAD_LEFT], idle) == {"B", "LEFT"}
    assert gamepad_buttons(
        [], {**idle, pygame.CONTROLLER_AXIS_LEFTX: -30_000, pygame.CONTROLLER_AXIS_TRIGGERRIGHT: 32_767}
    ) == {
        "LEFT",
        "B",
    }
    assert (
        gamepad_buttons([], {**idle, pygame.CONTROLLER_AXIS_LEFTX: 9_000, pygame.CONTROLLER_AXIS_TRIGGERLEFT: -32_768})
        == set()
    )
    assert set(BIT) == set(BUTTONS)


@contextlib.contextmanager
def playing(screen: Screen, folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`kartrl play`, against the clock, on the virtual display."""
    with on_screen(screen, folder, "play", "--game", "bundled", "--alone", *arguments) as game:
        yield game


@needs_screen
def test_the_command_itself_on_a_virtual_display(screen: Screen, tmp_path: Path) -> None:
    """Choose a circuit, drive, pause, make a state, quit: with keys that the X server delivers."""
    with playing(screen, tmp_path, "-o", "drive.bk2") as game:
        wait_for(lambda: colours(screen.look()) > 60, 100, "the list of circuits")
        screen.do("key", "Down")
        screen.do("key", "Return")
        time.sleep(0.5)
        began = time.monotonic()
        screen.do("keydown", "x")
        screen.await_changes(110)  # each is a tick at least, but for a few of the menu
        moving = screen.pixels()
        wait_for(lambda: np.mean(moving != screen.pixels()) > 0.02, 60, "a kart that moves")
        screen.do("keyup", "x")
        screen.do("key", "p")
        seconds = screen.await_rest() - began
        paused = screen.pixels()
        screen.do("key", "F3")
        wait_for(lambda: not np.array_equal(paused, screen.pixels()), 60, "the question, which text is typed into")
        screen.do("type", "--delay", "40", "bend")
        screen.do("key", "Return")
        wait_for((tmp_path / "bend.state").is_file, 60, "the start state")
        screen.do("key", "Escape")
        time.sleep(0.3)
        screen.do("key", "Escape")
        output, errors = game.communicate(timeout=60)
    assert (game.returncode, errors) == (0, "")
    assert output.splitlines() == ["Written: bend.state", "Written: drive.bk2"]
    movie = read_movie(tmp_path / "drive.bk2")
    driven = sum(held == BIT["B"] for held in movie.inputs)
    assert set(movie.inputs) == {0, BIT["B"]}
    # the clock may catch up with `MOST` ticks at the first key, and with as many before it sees the last one
    assert 100 < driven <= 60 * seconds + 2 * MOST + 1, "sixty ticks a second, no more"
    with Stage(Options(replay=tmp_path / "drive.bk2", game="bundled")) as stage:
        assert movie.circuit == below(stage)


@needs_screen
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_sigterm_saves_the_movie(screen: Screen, tmp_path: Path, number: signal.Signals, status: int) -> None:
    with playing(screen, tmp_path, "-l", CIRCUIT, "-o", "drive.bk2") as game:
        wait_for(lambda: colours(screen.look()) > 60, 100, "the circuit")
        screen.do("keydown", "x")
        screen.await_changes(35)  # each is a tick at least
        game.send_signal(number)
        _, errors = game.communicate(timeout=60)
    assert (game.returncode, errors) == (status, "")
    assert len(read_movie(tmp_path / "drive.bk2").inputs) > 30
