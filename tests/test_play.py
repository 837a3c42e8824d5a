"""Playing, without a window: movies, the clock, lap times, ghosts, start states, and what is refused."""

import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from commands import assert_clear, environment, run
from hypothesis import given
from hypothesis import strategies as st
from karts import START, steer
from policies import CARTPOLE, KART, save_policy

from kartrl.envs import cartridge
from kartrl.envs.libretro import BUTTONS
from kartrl.envs.retro import Console
from kartrl.errors import UserError
from kartrl.play import states
from kartrl.play.movie import Movie, read_movie, write_movie
from kartrl.play.pace import MOST, Pacer
from kartrl.play.session import Session
from kartrl.play.stage import Options, Stage

pytestmark = pytest.mark.skipif(importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform")

CIRCUIT = "MarioCircuit.Act1"
PLACE = ("x", "y", "kart_angle", "speed", "checkpoint", "lap", "collision")
B, LEFT, RIGHT = (1 << BUTTONS.index(name) for name in ("B", "LEFT", "RIGHT"))
# plays a movie on stable-retro's own emulator, by its own reader, and tells how the console stands at the end
PLAYER = """
import hashlib, json, sys
import numpy as np
import stable_retro as retro
folder, file = sys.argv[1:]
movie = retro.Movie(file)
emulator, data = retro.RetroEmulator(folder + "/rom.sfc"), retro.data.GameData()
emulator.configure_data(data)
emulator.step()
data.load(folder + "/data.json", folder + "/scenario.json")
emulator.set_state(movie.get_state())
frames = 0
while movie.step():
    emulator.set_button_mask(np.array([movie.get_key(button, 0) for button in range(12)], np.uint8), 0)
    emulator.step()
    frames += 1
state = hashlib.sha256(emulator.get_state()).hexdigest()
print(json.dumps([movie.get_game(), movie.players, frames, state, dict(data.lookup_all())]))
"""
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


def apart(script: str, *arguments: object) -> str:
    """What a script prints in a process of its own: stable-retro allows one emulator in each."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True).stdout


def some_driving(ticks: int, seed: int = 3) -> list[int]:
    """Buttons for so many ticks: mostly forward, and all others now and then, each held for a while."""
    dice = random.Random(seed)
    held: list[int] = []
    while len(held) < ticks:
        pressed = dice.choice((B, B, B | LEFT, B | RIGHT, dice.getrandbits(12)))
        held += [pressed] * dice.randint(1, 30)
    return held[:ticks]


def drive(session: Session, inputs: list[int]) -> Session:
    for buttons in inputs:
        session.tick(buttons)
    return session


@pytest.fixture(scope="module")
def movie_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds on the first circuit."""
    file = tmp_path_factory.mktemp("movie") / "drive.bk2"
    with Stage(Options(circuit=CIRCUIT, game="bundled")) as stage:
        session = stage.first()
        assert session is not None
        write_movie(file, drive(session, some_driving(600)).movie())
    return file


def test_a_movie_replays_exactly_on_stable_retro(tmp_path: Path) -> None:
    with Stage(Options(circuit=CIRCUIT, game="bundled")) as stage:
        session = stage.first()
        assert session is not None
        drive(session, some_driving(100))
        session.begin()  # a second race: nothing of the first may be left
        drive(session, some_driving(900, seed=5))
        write_movie(tmp_path / "drive.bk2", session.movie())
        here = hashlib.sha256(session.console.save()).hexdigest()
        race = session.console.race()
        game, players, frames, state, info = json.loads(apart(PLAYER, stage.folder, tmp_path / "drive.bk2"))
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
def test_what_is_written_is_read(inputs: list[int], state: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.bk2"
        movie = Movie("KartRL-Snes", CIRCUIT, state, tuple(inputs))
        write_movie(file, movie)
        assert read_movie(file) == movie
        assert os.listdir(folder) == ["a.bk2"]


def changed(file: Path, target: Path, name: str, change: bytes | None) -> Path:
    """A copy of a movie in which one part says something else, or is not there."""
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
        ("Core.bin", b"nothing", "does not take"),
        ("Core.bin", b"\0" * 5_000_000, "MiB|KiB"),
        ("Input Log.txt", b"[Input]\n[/Input]", "no frames"),
        ("Input Log.txt", b"|..|............|............|\n", "one SNES joypad"),
        ("Input Log.txt", b"|..|....|\n", "one SNES joypad"),
        ("Input Log.txt", b"|r.|............|\n", "resets"),
        ("Input Log.txt", b"\xff\xfe|", "decode"),
        ("Header.txt", b"GameName Sonic-Genesis\n", "Sonic-Genesis"),
    ],
)
def test_a_bad_movie_is_refused(tmp_path: Path, movie_file: Path, name: str, change: bytes | None, word: str) -> None:
    bad = changed(movie_file, tmp_path / "bad.bk2", name, change)
    with pytest.raises(UserError, match=word) as caught:
        Stage(Options(replay=bad, game="bundled"))
    assert_clear(caught.value)
    assert "bad.bk2" in str(caught.value)


def test_a_movie_of_another_build_is_refused(tmp_path: Path, movie_file: Path) -> None:
    console = Console("bundled", CIRCUIT)
    console.set_value("build_id", 1)
    bad = changed(movie_file, tmp_path / "bad.bk2", "Core.bin", console.save())
    console.close()
    with pytest.raises(UserError, match="another build"):
        Stage(Options(ghost=bad, game="bundled"))


def test_the_clock_is_steady() -> None:
    """However long the pictures take, a second has sixty ticks, unless the machine stands still for longer."""
    dice = random.Random(1)
    pacer, now, ticks = Pacer(10.0, 60), 10.0, 0
    while now < 40.0:
        ticks += pacer.due(now)
        now += pacer.wait(now) + dice.choice((0.0, 0.001, 0.02, 0.05))
    assert abs(ticks - 60 * (now - 10.0)) <= 4
    assert pacer.due(now + 5) == MOST, "what has been missed is let go"
    assert pacer.due(now + 5.001) == 0


def test_the_clock_does_not_run_ahead() -> None:
    pacer, now = Pacer(0.0, 60), 0.0
    seen = []
    for _ in range(600):
        seen.append(pacer.due(now))
        assert 0 < pacer.wait(now) <= 1 / 60 + 1e-9
        now += pacer.wait(now)
    assert seen == [1] * 600
    assert now == pytest.approx(10.0)


@pytest.fixture(scope="module")
def race_inputs() -> list[int]:
    """The buttons of each tick of a whole race that the scripted driver has driven in the environment, and its lap times."""
    env = gymnasium.make("kartrl/Kart-v0", circuit=CIRCUIT, game="bundled", frame_skip=4).unwrapped
    _, info = env.reset(seed=1, options=START)
    inputs, terminated = [], False
    while not terminated:
        action = steer(env, info, 2)
        _, _, terminated, truncated, info = env.step(action)
        assert not truncated
        inputs += [env._buttons[action]] * 4
    env.close()
    LAP_TIMES[:] = info["lap_times"]
    return inputs


LAP_TIMES: list[float] = []  # of `race_inputs`


def begun(**options: Any) -> tuple[Stage, Session]:
    stage = Stage(Options(game="bundled", **options))
    session = stage.first()
    assert session is not None
    return stage, session


def test_a_whole_race(race_inputs: list[int], tmp_path: Path) -> None:
    """Lap times are the environment's, the movie ends with the race, and whoever races against it sees it where it was."""
    stage, session = begun(circuit=CIRCUIT)
    with stage:
        places = []
        for buttons in race_inputs:
            session.tick(buttons)
            places.append(session.console.race())
        assert session.ended
        times = session.drive.lap_times
        assert times == pytest.approx(LAP_TIMES, abs=0.08), "an agent looks at the clock at every fourth tick only"
        race = session.console.race()
        assert (session.best, times[-1]) == pytest.approx((race["best_lap"] / 60, race["last_lap"] / 60), abs=0.02), "the game's own"
        ticks = session.ticks
        assert len(race_inputs) - 4 <= ticks - 1 <= len(race_inputs)
        drive(session, [B] * 30)
        assert session.ticks == len(session.movie().inputs) == ticks
        write_movie(tmp_path / "race.bk2", session.movie())
        session.begin()
        assert (session.ended, session.ticks, session.drive.lap_times) == (False, 1, ())
        assert session.best == min(times), "kept for the next race"

    stage, session = begun(ghost=tmp_path / "race.bk2")
    late = 30
    with stage:
        assert session.ghost is not None
        assert session.circuit == CIRCUIT, "that of the movie, where none is named"
        drive(session, [0] * late)
        for tick, buttons in enumerate(race_inputs[:900]):
            session.tick(buttons)
            ghost, shown = places[tick + late], session.console.race()
            assert session.ghost.race == ghost
            assert (shown["opponent1_x"], shown["opponent1_y"]) == (ghost["x"], ghost["y"])
            assert shown["opponent1_angle"] == ghost["kart_angle"]
            if shown["speed"] > 100:
                assert session.gap == pytest.approx(late / 60, abs=0.034)
        own = session.console.race()
        assert {name: own[name] for name in PLACE} == {name: places[899][name] for name in PLACE}, "a ghost is never touched"
        write_movie(tmp_path / "second.bk2", session.movie())
        *_, info = json.loads(apart(PLAYER, stage.folder, tmp_path / "second.bk2"))
        assert {name: info[name] for name in PLACE} == {name: own[name] for name in PLACE}, "its movie needs no ghost"


def test_the_ghost_of_a_network_drives_as_in_evaluation(tmp_path: Path) -> None:
    """At every step it is where the environment's own kart is, and in between it has moved on tick by tick."""
    from kartrl.evaluate import open_driver, steps

    policy = save_policy(tmp_path, KART)
    with open_driver(policy, [CIRCUIT], "cpu") as driver:
        drives = steps(driver.env, driver.model, CIRCUIT, greedy=True, device=driver.device, seed=0, noop=0)
        infos = [info for info, _, _ in drives]
    stage, session = begun(circuit=CIRCUIT, checkpoint=policy)
    with stage:
        for _ in range(2):
            ghost = session.ghost
            assert ghost is not None
            seen = [ghost.race["tick"]]
            for step, info in enumerate(infos):
                assert (ghost.race["x"], ghost.race["y"]) == (info["x"], info["y"])
                assert ghost.race["tick"] == 1 + 4 * step
                drive(session, [0] * 4)
                seen.append(ghost.race["tick"])
            last = ghost.race
            drive(session, [0] * 9)
            assert ghost.race == last, "it stays where its drive ends"
            session.begin()


def test_states_hold_neither_commands_nor_the_ghost(tmp_path: Path, movie_file: Path) -> None:
    """A start state made in the middle of a race against a ghost; making it does not disturb the race."""
    inputs = some_driving(400, seed=8)
    states_of = []
    for made in (False, True):
        stage, session = begun(ghost=movie_file)
        with stage:
            drive(session, inputs[:200])
            if made:
                states.save(tmp_path / "here.state", session.state())
                before = session.console.race()
            drive(session, inputs[200:])
            states_of.append(session.console.save())
    assert states_of[0] == states_of[1]
    console = Console("bundled", str(tmp_path / "here.state"))
    race = console.race()
    assert (race["ticks"], race["opponents"]) == (0, 0)
    assert {name: race[name] for name in PLACE} == {name: before[name] for name in PLACE}
    console.close()
    assert os.stat(tmp_path / "here.state").st_mode & 0o777 == 0o600


def test_where_states_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    own, bundled = cartridge.folder(), Path("elsewhere")
    assert states.place(own, " MarioCircuit.Act1 ") == own / "MarioCircuit.Act1.state"
    assert states.place(bundled, "MarioCircuit.Act1") == Path("MarioCircuit.Act1.state")
    for folder in (own, bundled):
        assert states.place(folder, "/some/where/bend") == Path("/some/where/bend.state")
        assert states.place(folder, "bend.state") == Path("bend.state")
        for text in ("", "  ", "a\0b", "/", "../", ".state", "x/.."):
            with pytest.raises(UserError):
                states.place(folder, text)
    with pytest.raises(UserError, match="no circuit of the cartridge"):
        states.place(own, "MyCircuit")
    with pytest.raises(UserError, match="cannot write"):
        states.save(tmp_path / "no" / "folder.state", b"state")


@pytest.fixture
def own_cartridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundled game's ROM in the place of an owner's cartridge, without any start state."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / "data"))
    with Stage(Options(game="bundled")) as stage:
        rom = (stage.folder / "rom.sfc").read_bytes()
    (tmp_path / "own.sfc").write_bytes(rom)
    return cartridge.import_rom(tmp_path / "own.sfc", None, hashlib.sha1(rom).hexdigest(), len(rom))


def test_an_owner_makes_start_states(own_cartridge: Path) -> None:
    """From switching the console on to an environment that trains on what was made."""
    with Stage(Options(game="cartridge")) as stage:
        session = stage.first()
        assert session is not None, "with no start state there is nothing to choose from"
        drive(session, some_driving(300))
        assert not session.ended
        session.begin()
        assert session.console.race()["lap"] != 129
        drive(session, [0] * 120 + [B] * 60)
        states.save(states.place(stage.folder, CIRCUIT), session.state())
        race = session.console.race()
        assert stage.choices() == [CIRCUIT, ""]
    env = gymnasium.make("kartrl/Kart-v0", circuit=CIRCUIT, game="cartridge", frame_skip=4).unwrapped
    _, info = env.reset(options={"noop": 0})
    assert abs(info["x"] - race["x"]) + abs(info["y"] - race["y"]) < 6
    assert sorted(file.name for file in own_cartridge.iterdir()) == ["MarioCircuit.Act1.state", "rom.sfc"]
    env.close()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-s", "Nowhere"], "Nowhere"),
        (["-s", "none.state"], "none.state"),
        (["--replay", "none.bk2"], "none.bk2"),
        (["--ghost", "none.bk2"], "none.bk2"),
        (["-p", "none.pt"], "none.pt"),
        (["-p", "a.pt", "--ghost", "b.bk2"], "one ghost"),
        (["--replay", "a.bk2", "-s", "x"], "--replay"),
        (["-o", "drive.mp4"], ".bk2"),
        (["--replay", "a.bk2", "-o", "drive.bk2"], ".mp4"),
        (["-o", "no/folder/drive.bk2"], "no/folder"),
        (["--game", "cartridge"], "import-rom"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    done = run("play", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


def test_a_ghost_from_elsewhere_is_refused(tmp_path: Path, movie_file: Path) -> None:
    with Stage(Options(circuit="MarioCircuit.Act2", ghost=movie_file, game="bundled")) as stage, pytest.raises(UserError, match="Act1"):
        stage.first()
    with pytest.raises(UserError, match="CartPole"):
        Stage(Options(checkpoint=save_policy(tmp_path, CARTPOLE), game="bundled"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a display")
@pytest.mark.parametrize("display", [None, ":4711"])
def test_without_a_display(tmp_path: Path, display: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    done = run("play", cwd=tmp_path)
    assert done.returncode == 2
    assert "display" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_movie_becomes_a_video_without_a_display(tmp_path: Path, movie_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import av

    monkeypatch.delenv("DISPLAY", raising=False)
    done = run("play", "--replay", str(movie_file), "-o", "drive.mp4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with av.open(str(tmp_path / "drive.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 601
