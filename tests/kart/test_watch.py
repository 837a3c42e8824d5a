"""`kartrl watch`: a policy in a window or a film, level after level."""

import importlib.util
import io
import signal
import subprocess
from pathlib import Path

import av
import numpy as np
import pytest
from commands import assert_clear, run, start, wait_for
from policies import CARTPOLE, KART, save_policy
from rich.console import Console
from screens import Screen, colours, needs_screen, on_screen

from kartrl.commands.shared.policy import Driving
from kartrl.commands.watch.showing import watch
from kartrl.driving.driver import open_driver
from kartrl.errors import UserError
from kartrl.kart.play.watching import WatchWindow, draw
from kartrl.run.run_folder import RunFolder
from kartrl.viewer.loop import keep_going
from kartrl.viewer.show import SIDE, Show, images_of
from kartrl.viewer.window import Canvas, Window, pygame

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"
)
CIRCUITS = ["MarioCircuit.Act2", "RainbowRoad.Act1"]


@pytest.fixture(scope="module")
def kart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("kart"), [*KART, "environment.frame_stack=3"])


def frames_of(film: Path) -> tuple[float, list[np.ndarray]]:
    """Pictures per second, and the pictures."""
    with av.open(str(film)) as container:
        (stream,) = container.streams.video
        return float(stream.average_rate), [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]


def test_show_drives_circuits_one_by_one_and_draws_every_part(kart: Path) -> None:
    said: list[str] = []
    with open_driver(kart, CIRCUITS, "cpu", render=True) as driver:
        show = Show(driver, kart, None, greedy=True, seconds=0, say=said.append)
        canvas = Canvas()
        titles, rates, maps = [], [], []
        draw(canvas, show)
        begin = canvas.pixels()
        while show.rounds == 0:
            show.tick()
            if show.title not in titles:
                titles.append(show.title)
                maps.append(show.map.copy())
            if show.summary and len(rates) < len(titles):
                rates.append(show.summary)
                assert np.array_equal(show.picture, driver.env.render()), "the last picture of the race"
                assert np.abs(show.map.astype(int) - maps[-1]).max() > 60, "the line has grown"
                x, y = show.position
                assert 0 < x < 1
                assert 0 < y < 1
                draw(canvas, show)
                assert np.mean(canvas.pixels() != begin) > 0.1
        canvas.close()
    assert titles == CIRCUITS
    assert len(rates) == 2
    assert all("laps" in summary for summary in rates)
    assert said == [f"Showing {kart}: 1,000 agent steps"]
    assert show.map.shape == (SIDE, SIDE, 3)
    assert [image.shape for image in show.seen] == [(54, 52, 3)] * 3


def test_the_show_is_the_drive_that_evaluate_makes(kart: Path) -> None:
    """Frame by frame, and what the network sees is what it acts on."""
    from kartrl.driving.episodes import steps

    with open_driver(kart, CIRCUITS[:1], "cpu", render=True) as driver:
        show = Show(driver, kart, None, greedy=True, seconds=0, say=str)
        pictures, seen = [show.picture], [show.seen[0][..., 0]]
        while show.episode is None:
            show.tick()
            pictures.append(show.picture)
            if not np.array_equal(show.seen[0][..., 0], seen[-1]):
                seen.append(show.seen[0][..., 0])
        expected: list[np.ndarray] = []
        driver.env.unwrapped.on_frame = expected.append
        options = driver.world.reset_options(driver.levels[0])
        driven = list(steps(driver.env, driver.network, options, greedy=True, seed=0))
    assert len(pictures) == len(expected)
    assert all(np.array_equal(one, other) for one, other in zip(pictures, expected, strict=True))
    assert show.episode.episodic_return == pytest.approx(sum(step.reward for step in driven), abs=1e-3)
    assert any(np.array_equal(seen[-1], step.observation[..., -1]) for step in driven[-3:])


def test_a_run_is_followed_from_checkpoint_to_checkpoint(tmp_path: Path) -> None:
    said: list[str] = []
    run_folder = tmp_path / "run"
    first = save_policy(run_folder, CARTPOLE, 1000)
    with open_driver(first, [], "cpu", render=True) as driver:
        show = Show(driver, first, run_folder, greedy=True, seconds=0, say=said.append)
        assert show.policy == "1,000 agent steps"
        assert len(show.numbers) == 4
        assert show.seen == []
        assert show.map is None
        newer = save_policy(run_folder, CARTPOLE, 2500)
        assert show.policy == "1,000 agent steps", "until the next episode"
        show.next()
        assert show.policy == "2,500 agent steps"
        newest = save_policy(run_folder, CARTPOLE, 4000)
        newest.write_bytes(b"cut short")
        show.next()
        assert show.policy == "2,500 agent steps"
        canvas = Canvas()
        draw(canvas, show)
        canvas.close()
    assert said == [f"Showing {path}: {steps} agent steps" for path, steps in ((first, "1,000"), (newer, "2,500"))]


def test_keys_of_the_window(kart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = Window("test")
    with open_driver(kart, CIRCUITS, "cpu", render=True) as driver:
        show = Show(driver, kart, None, greedy=False, seconds=1, say=str)
        screen = WatchWindow(show, window)

        def press(key: int) -> None:
            screen.take(pygame.event.Event(pygame.KEYDOWN, key=key))

        press(pygame.K_p)
        before = show.picture
        screen.tick()
        assert show.picture is before, "paused"
        press(pygame.K_p)
        assert show.title == CIRCUITS[0]
        press(pygame.K_n)
        assert show.title == CIRCUITS[1]
        for _ in range(60):
            assert show.title == CIRCUITS[1]
            screen.tick()
        assert (show.title, show.rounds) == (CIRCUITS[0], 1), "a second has gone by"
        screen.draw()
        press(pygame.K_F11)
        screen.draw()
        press(pygame.K_ESCAPE)
        assert not screen.open
    window.close()


class DrawnOnce(WatchWindow):
    def draw(self) -> None:
        super().draw()
        self.open = False


def test_a_window_survives_an_environment_that_quits_pygame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("KARTRL_IMPORT", "awkward")
    path = save_policy(tmp_path / "run", ["environment.id=awkward:awkward/QuitsPygame-v0", "model.hidden_size=16"])
    window = Window("test")
    with open_driver(path, [], "cpu", render=True) as driver:
        screen = DrawnOnce(Show(driver, path, None, greedy=False, seconds=1, say=str), window)
        drawn = []
        for _ in range(30):
            screen.tick()
            screen.draw()
            drawn.append(window.pixels().std())
        assert min(drawn) > 5
        screen.take(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_n))
        assert not pygame.display.get_init()
        screen.open = True
        keep_going(screen, 10)
        assert window.pixels().std() > 5
    window.wait("loading the next one")
    window.close()


def test_stacked_images_are_shown_the_newest_first() -> None:
    grey = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(4, 5, 3)
    assert [image[0, 0].tolist() for image in images_of(grey, 1)] == [[2] * 3, [1] * 3, [0] * 3]
    (colour,) = images_of(grey, 3)
    assert np.array_equal(colour, grey)
    assert len(images_of(np.zeros((4, 5, 12), np.uint8), 3)) == 4


def test_without_a_display_any_environment_becomes_a_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest run is taken; one that is training is followed from its newest checkpoint on."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    run_folder = Path("logs") / "pole"
    newest = save_policy(run_folder, CARTPOLE)
    (run_folder / "config.cfg").touch()
    newest.with_name("0000000500.pt").write_bytes(newest.read_bytes())
    (run_folder / "best.pt").write_bytes(newest.read_bytes())
    done = run("watch", "pole", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "No display: recording a video instead (-o FILE.mp4 chooses where)",
        "Showing logs/pole/best.pt: 1,000 agent steps",
        "Video: watch.mp4",
    ]
    rate, pictures = frames_of(tmp_path / "watch.mp4")
    assert rate == 25, "every other of its fifty pictures per second"
    assert pictures[0].shape == (672, 1056, 3)
    assert len(pictures) > 50, "the end is shown for two seconds"

    held = RunFolder(run_folder)
    for name, said in (("pole", []), (None, ["Following logs/pole, which is training (watch RUN: another)"])):
        console = Console(file=io.StringIO(), width=200)
        watch(name, Driving(), tmp_path / "film.mp4", 1, console)
        assert console.file.getvalue().splitlines()[:-1] == [*said, f"Showing {newest}: 1,000 agent steps"]
    for file in (newest, newest.with_name("0000000500.pt")):
        file.unlink()
    with pytest.raises(UserError, match="no checkpoint to record yet") as caught:
        watch("pole", Driving(), tmp_path / "none.mp4", 0, console)
    assert_clear(caught.value)
    held.release()
    for arguments, words in ((["nowhere"], "nowhere: no such run"), (["pole", "-o", "a.avi"], ".mp4")):
        bad = run("watch", *arguments, cwd=tmp_path)
        assert (bad.returncode, bad.stderr.count("\n")) == (2, 1), bad.stderr
        assert words in bad.stderr


def test_ctrl_c_keeps_the_film_so_far(kart: Path, tmp_path: Path) -> None:
    film = ["watch", str(kart), "-l", "*", "-o", "film.mp4"]  # so many that it cannot be through before the signal
    process = start(*film, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: any(file.stat().st_size > 1000 for file in tmp_path.glob("*.tmp")), 100, "some of the film")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "Interrupted; the video so far is kept" in output
    _, pictures = frames_of(tmp_path / "film.mp4")
    assert len(pictures) > 5
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


@needs_screen
def test_the_window_on_a_virtual_display(kart: Path, screen: Screen, tmp_path: Path) -> None:
    """It drives by itself, goes on at a key, and ends at Ctrl-C."""
    with on_screen(screen, tmp_path, "watch", str(kart), "-l", ",".join(CIRCUITS)) as shown:
        wait_for(lambda: colours(screen.look()) > 60, 100, "the race")
        before = np.asarray(screen.look())
        wait_for(lambda: np.mean(np.asarray(screen.look()) != before) > 0.02, 60, "a kart that moves")
        screen.do("key", "n")
        wait_for(lambda: np.mean(np.asarray(screen.look()) != before) > 0.4, 60, "another circuit")
        shown.send_signal(signal.SIGINT)
        output, errors = shown.communicate(timeout=60)
    assert (shown.returncode, errors) == (130, "")
    assert output == f"Showing {kart}: 1,000 agent steps\n"
