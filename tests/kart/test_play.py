"""Playing without a window: movies, the clock, and invalid input."""

import hashlib
import importlib.util
import os
import random
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from commands import assert_clear, run
from hypothesis import given
from hypothesis import strategies as st
from players import CIRCUIT, LEFT, apart, begun, drive, on_stable_retro, some_driving
from policies import CARTPOLE, KART, save_policy

from kartrl.console.movie import Movie, read_movie, write_movie
from kartrl.console.states import write_state
from kartrl.errors import UserError
from kartrl.kart.console import KartConsole
from kartrl.kart.play.stage import Options, Stage
from kartrl.viewer.pace import MOST, Pacer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"
)

# records a movie as stable-retro does
RECORDER = """
import gzip, sys
import stable_retro as retro
folder, file = sys.argv[1:]
emulator = retro.RetroEmulator(folder + "/rom.sfc")
movie = retro.Movie(file, True, 1)
movie.configure("KartRL-Snes", emulator)
movie.set_state(gzip.open(folder + "/MarioCircuit.Act1.state").read())
movie.step()
for held in range(12):
    for button in range(12):
        movie.set_key(button, button == held, 0)
    movie.step()
movie.close()
"""


def test_a_movie_replays_exactly_on_stable_retro(tmp_path: Path) -> None:
    with Stage(Options(circuits=(CIRCUIT,), game="bundled")) as stage:
        session = stage.first()
        assert session is not None
        drive(session, some_driving(100))
        session.begin()  # a second race: nothing of the first may be left
        drive(session, some_driving(900, seed=5))
        write_movie(tmp_path / "drive.bk2", session.movie())
        here = hashlib.sha256(session.console.save()).hexdigest()
        race = session.console.race()
        game, players, frames, state, info = on_stable_retro(stage.folder, tmp_path / "drive.bk2")
    assert (game, players, frames) == ("KartRL-Snes", 1, 901)
    assert race["tick"] == 901
    assert info == race
    assert state == here, "the whole console, bit for bit"


def test_a_movie_replays_exactly_here(movie_file: Path) -> None:
    with Stage(Options(replay=movie_file, game="bundled")) as stage:
        session = stage.first()
        assert session is not None
        assert not session.driven
        assert session.circuit == CIRCUIT
        pictures = []
        for _ in range(2):
            while not session.ended:
                session.tick(LEFT)  # what is held does not count
            pictures.append(session.screen())
            assert session.console.race()["tick"] == 601
            session.begin()
        assert (pictures[0] == pictures[1]).all()


def test_movies_of_stable_retro_are_read(tmp_path: Path) -> None:
    with Stage(Options(game="bundled")) as stage:
        apart(RECORDER, stage.folder, tmp_path / "theirs.bk2")
    movie = read_movie(tmp_path / "theirs.bk2")
    assert (movie.game, movie.circuit) == ("KartRL-Snes", "")
    assert movie.inputs == (0, *(1 << button for button in range(12)))
    with Stage(Options(replay=tmp_path / "theirs.bk2", game="bundled")) as stage:
        session = stage.first()
        assert session is not None
        assert not session.ended


@given(st.lists(st.integers(0, 2**12 - 1), min_size=1, max_size=50), st.binary(min_size=1, max_size=100))
def test_movie_survives_a_round_trip(inputs: list[int], state: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.bk2"
        movie = Movie("KartRL-Snes", CIRCUIT, state, tuple(inputs))
        write_movie(file, movie)
        assert read_movie(file) == movie
        assert os.listdir(folder) == ["a.bk2"]


def changed(file: Path, target: Path, name: str, change: bytes | None) -> Path:
    """A copy of a movie in which one part is replaced or missing."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(target, "w") as new:
        for part in old.namelist():
            if part != name:
                new.writestr(part, old.read(part))
            elif change is not None:
                new.writestr(part, change)
    return target


@pytest.mark.parametrize(
    ("name", "change", "word"),
    [
        ("Core.bin", None, "Core.bin"),
        ("Core.bin", b"nothing", "rejects"),
        ("Core.bin", b"\0" * 5_000_000, "MiB|KiB"),
        ("Input Log.txt", b"[Input]\n[/Input]", "no frames"),
        ("Input Log.txt", b"|..|............|............|\n", "single joypad"),
        ("Input Log.txt", b"|..|....|\n", "single joypad"),
        ("Input Log.txt", b"|r.|............|\n", "resets"),
        ("Input Log.txt", b"\xff\xfe|", "decode"),
        ("Header.txt", b"GameName Sonic-Genesis\n", "Sonic-Genesis"),
    ],
)
def test_invalid_movie_is_rejected(
    tmp_path: Path, movie_file: Path, name: str, change: bytes | None, word: str
) -> None:
    bad = changed(movie_file, tmp_path / "bad.bk2", name, change)
    with pytest.raises(UserError, match=word) as caught:
        Stage(Options(replay=bad, game="bundled"))
    assert_clear(caught.value)
    assert "bad.bk2" in str(caught.value)


def test_movie_of_another_build_is_rejected(tmp_path: Path, movie_file: Path) -> None:
    console = KartConsole("bundled", CIRCUIT)
    console.set_value("build_id", 1)
    bad = changed(movie_file, tmp_path / "bad.bk2", "Core.bin", console.save())
    console.close()
    with pytest.raises(UserError, match="another build"):
        Stage(Options(ghost=bad, game="bundled"))


def test_clock_runs_sixty_ticks_per_second() -> None:
    """Independent of drawing times, except for longer stalls."""
    dice = random.Random(1)
    pacer, now, ticks = Pacer(10.0, 60), 10.0, 0
    while now < 40.0:
        ticks += pacer.due(now)
        now += pacer.wait(now) + dice.choice((0.0, 0.001, 0.02, 0.05))
    assert abs(ticks - 60 * (now - 10.0)) <= 4
    assert pacer.due(now + 5) == MOST, "missed ticks are dropped"
    assert pacer.due(now + 5.001) == 0


def test_clock_does_not_run_ahead() -> None:
    pacer, now = Pacer(0.0, 60), 0.0
    seen = []
    for _ in range(600):
        seen.append(pacer.due(now))
        assert 0 < pacer.wait(now) <= 1 / 60 + 1e-9
        now += pacer.wait(now)
    assert seen == [1] * 600
    assert now == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-l", "Nowhere"], "Nowhere"),
        (["-l", "none.state"], "none.state"),
        (["--replay", "none.bk2"], "none.bk2"),
        (["--ghost", "none.bk2"], "none.bk2"),
        (["-p", "none.pt"], "none.pt"),
        (["-p", __file__, "--ghost", "b.bk2"], "only one ghost"),
        (["--replay", "a.bk2", "-l", "x"], "--replay"),
        (["-o", "drive.mp4"], ".bk2"),
        (["--replay", "a.bk2", "-o", "drive.bk2"], ".mp4"),
        (["-o", "no/folder/drive.bk2"], "no/folder"),
        (["--game", "cartridge"], "import-rom"),
    ],
)
def test_invalid_input_is_one_line(
    tmp_path: Path, arguments: list[str], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    done = run("play", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


def test_circuits_are_selected_as_in_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several leave the choice to the player; one, be it a file, is driven at once."""
    with Stage(Options(circuits=("MarioCircuit.*",), game="bundled")) as stage:
        assert stage.first() is None
        assert stage.choices() == [f"MarioCircuit.Act{act}" for act in (1, 2, 3, 4)]
        drive(session := stage.session("MarioCircuit.Act2"), some_driving(100))
        write_state(tmp_path / "bend.state", session.state())
    monkeypatch.chdir(tmp_path)
    policy = save_policy(tmp_path, KART)
    stage, session = begun(circuits=("bend.state",), checkpoint=policy)
    with stage:
        assert session.circuit == "bend"
        drive(session, some_driving(20))
        assert session.ghost is not None
        assert abs(session.ghost.race["x"] - session.console.race()["x"]) < 100


def test_ghost_of_another_circuit_is_rejected(tmp_path: Path, movie_file: Path) -> None:
    with (
        Stage(Options(circuits=("MarioCircuit.Act2",), ghost=movie_file, game="bundled")) as stage,
        pytest.raises(UserError, match="Act1"),
    ):
        stage.first()
    with pytest.raises(UserError, match="CartPole"):
        Stage(Options(checkpoint=save_policy(tmp_path, CARTPOLE), game="bundled"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a display")
@pytest.mark.parametrize("display", [None, ":4711"])
def test_missing_display_is_one_line(tmp_path: Path, display: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    done = run("play", cwd=tmp_path)
    assert done.returncode == 2
    assert "display" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_movie_becomes_a_video_without_a_display(
    tmp_path: Path, movie_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import av

    monkeypatch.delenv("DISPLAY", raising=False)
    done = run("play", "--replay", str(movie_file), "-o", "drive.mp4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with av.open(str(tmp_path / "drive.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 601


def test_no_black_lines_are_shown_at_the_horizon_or_above():
    stage, session = begun(circuits=(CIRCUIT,), opponents=3)
    with stage:
        drive(session, some_driving(30))
        ground = session.console.game.ground_rows[1]
        assert not session.screen()[:ground].any((1, 2)).all(), "the console has some: it writes to video memory then"
        assert session.console.picture()[:ground].any((1, 2)).all()
        assert (session.console.picture()[ground:] == session.screen()[ground:]).all()
        assert session.title == "Meadow Ring"
