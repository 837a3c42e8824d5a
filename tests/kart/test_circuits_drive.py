"""Circuits on the real emulator: the scripted driver, start states, the cache, and the command line."""

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run
from PIL import Image
from test_circuits import OVAL

from kartrl.cli import main
from kartrl.commands.circuit.drive import record_drive
from kartrl.errors import UserError
from kartrl.kart import built_circuits
from kartrl.kart.circuits import library
from kartrl.kart.circuits.driver import Driver, drive, lap_times
from kartrl.kart.circuits.format import parse
from kartrl.kart.circuits.generator import random_circuit
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.line import line_of
from kartrl.kart.circuits.states import make_state, start_state
from kartrl.kart.console import KartConsole
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.kart.levels import CIRCUITS, KINDS

pytest.importorskip("stable_retro", reason="no SNES emulator on this platform")

GAME = GAMES / BUNDLED


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KARTRL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_scripted_driver_finishes_every_circuit(circuit: str) -> None:
    laps = 5 if circuit == CIRCUITS[0] else 1
    times = lap_times(circuit, laps)
    assert len(times) == laps
    assert all(15 < seconds < 40 for seconds in times), times


@pytest.mark.parametrize("kind", ["asphalt", "mud", "ice", "rainbow"])  # the bundled ones are of all kinds
def test_scripted_driver_finishes_random_circuits(kind: str) -> None:
    console = KartConsole(GAME)
    console.restore(start_state(console, compile_block(random_circuit(101, kind))))
    (seconds,) = drive(console, laps=1)
    console.close()
    assert 12 < seconds < 60


def test_start_states_are_deterministic() -> None:
    block = compile_block(parse(OVAL, "OVAL"))
    assert make_state(block) == make_state(block)


def test_cache_builds_once_and_keeps_order(cache: Path) -> None:
    told: list[str] = []
    first = library.random_states([7, 3, 7], "ice", told.append)
    assert [file.name for file in first] == ["random.ice.0007.state", "random.ice.0003.state", "random.ice.0007.state"]
    assert sorted(set(told)) == ["random.ice.0003", "random.ice.0007"]
    assert all(file.is_file() and cache in file.parents for file in first)
    stamp = first[0].stat().st_mtime_ns
    assert library.random_states([7], "ice") == first[:1]
    assert first[0].stat().st_mtime_ns == stamp
    kinds = [file.name.split(".")[1] for file in library.random_states([0, 1])]
    assert kinds == list(KINDS[:2])
    with pytest.raises(UserError, match="unknown kind of circuit 'grass'"):
        library.random_states([1], "grass")


def test_generated_states_are_trusted_in_the_cache_alone(cache: Path, tmp_path: Path) -> None:
    """The others are driven by an emulator in a process of its own, which takes half as long again."""
    (built,) = library.random_states([7], "ice")
    copy, renamed = tmp_path / built.name, built.with_name("mine.state")
    for other in (copy, renamed):
        shutil.copy(built, other)
    foreign = {path: built_circuits.is_foreign(GAMES / BUNDLED, str(path)) for path in (built, copy, renamed)}
    assert foreign == {built: False, copy: True, renamed: True}
    assert not built_circuits.is_foreign(GAMES / BUNDLED, "MarioCircuit.Act1")
    assert built_circuits.is_foreign(tmp_path, "MarioCircuit.Act1")


def test_cache_of_other_looks_is_another(tmp_path: Path) -> None:
    own = Path(library.__file__).parent
    same, other = (Path(shutil.copytree(own, tmp_path / name / "circuits")) for name in ("same", "other"))
    for package in (same, other):
        shutil.copy(own.with_name("block.py"), package.parent)
    look = other / "appearance" / "looks" / "ice.toml"
    look.write_text(look.read_text().replace("road = ", "rail = ", 1))
    assert built_circuits.version(same) == built_circuits.version() != built_circuits.version(other)


def test_cache_that_cannot_be_read_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is too long stands for a closed folder: `Path.is_file` raises an exception for both."""
    monkeypatch.setenv("KARTRL_CACHE", str(tmp_path / ("a" * 300)))
    assert built_circuits.find("a.state") == built_circuits.place() / "a.state"
    assert tmp_path not in built_circuits.place().parents


def test_circuits_without_a_cache_are_built_for_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_CACHE", "/dev/null/cache")
    (first,) = library.random_states([0], "asphalt")
    stamp = first.stat().st_mtime_ns
    assert library.random_states([0], "asphalt") == [first]
    assert first.stat().st_mtime_ns == stamp
    show = "from kartrl.kart.circuits.library import random_states; print(*random_states([0], 'asphalt'))"
    shown = subprocess.run([sys.executable, "-c", show], text=True, capture_output=True, check=True)
    other = Path(shown.stdout.strip())
    assert (other.name, other.exists()) == (first.name, False), "gone with its process"


def test_several_processes_build_the_same_states(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = library.random_states(range(2), "asphalt")
    alone = {file.name: gzip.decompress(file.read_bytes()) for file in many}
    monkeypatch.setenv("KARTRL_CACHE", str(cache / "other"))
    monkeypatch.setattr(library, "FEW", 1)
    for file in library.random_states(range(2), "asphalt"):
        assert gzip.decompress(file.read_bytes()) == alone[file.name]


def test_users_script_is_not_rerun_to_build_circuits(cache: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "from kartrl.kart.circuits.library import random_states\n"
        "print(len(random_states(range(5), 'asphalt')), 'states')\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "5 states\n", "")


def test_a_circuit_that_cannot_be_driven_is_no_level(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OVAL + "coins = [" + ", ".join(f"{{ at = {k}, count = 8 }}" for k in range(1, 6)) + "]")
    with pytest.raises(UserError, match=r"mine\.toml: there are 40 coins; at most 32 are allowed"):
        library.state_of(file)


def test_cached_state_follows_the_files_content(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OVAL)
    state = library.state_of(file)
    assert (state.name, cache in state.parents) == ("mine.state", True)
    assert library.state_of(file) == state
    file.write_text(OVAL.replace('"OVAL"', '"RING"'))
    other = library.state_of(file)
    assert other != state
    console = KartConsole(GAME, str(other))
    block = console.block()
    console.close()
    assert block is not None
    assert block.title == "RING"


def test_check_reports_faults_and_lap_times(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(OVAL)
    bad.write_text(OVAL.replace("80]", "40]"))
    result = run("circuit", "check", str(good), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "good, 2551 pixels a lap; laps of the scripted driver: 1" in result.stdout
    assert result.stdout.count(",") == 5
    result = run("circuit", "check", "--no-drive", str(good), str(bad), cwd=tmp_path)
    assert result.returncode == 1
    assert f"{good}: good, 2551 pixels a lap\n" in result.stdout
    assert f"{bad}: the road is too narrow near point" in result.stdout


def test_build_draw_and_drive_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "Mine.toml"
    file.write_text(OVAL)
    result = run("circuit", "build", "Mine.toml", "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["Mine.png", "Mine.state"]
    picture = np.asarray(Image.open(tmp_path / "out" / "Mine.png"))
    assert picture.shape == (1024, 1024, 3)
    assert np.ptp(picture[512, 140:160].astype(int), axis=-1).max() < 40, "asphalt is grey"
    result = run("circuit", "draw", "out/Mine.state", "MarioCircuit.Act2", "Mine.toml", "-o", "sheet.png", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[0] > 700
    result = run("circuit", "drive", "out/Mine.state", "--laps", "1", "-o", "films", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "1 of 1" in result.stdout
    assert result.stdout.endswith("\nfilms/Mine.mp4\n")
    assert (tmp_path / "films" / "Mine.mp4").stat().st_size > 50_000


def test_recording_a_drive_reports_progress(tmp_path: Path) -> None:
    laps: list[float] = []
    wanted = tmp_path / "new" / "film.mp4"
    film, times = record_drive("MarioCircuit.Act2", 1, wanted, lambda *, completed: laps.append(completed))
    assert (film, len(times.seconds)) == (wanted, 1)
    assert laps == sorted(laps)
    assert laps[0] <= 0.1
    assert 0.9 < laps[-1] <= 1


@pytest.fixture(scope="module")
def late_state(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A start state of the third lap, and the times by the game's own clock of the laps that follow."""
    file = tmp_path_factory.mktemp("late") / "late.state"
    console = KartConsole(GAME, "MarioCircuit.Act1")
    times: list[float] = []
    for first, last in ((0, 2), (2, 5)):
        block = console.block()
        assert block is not None
        driver, laps = Driver(console, block), first
        console.step(0)
        while laps < last:
            console.step(driver.act(console.race()), 5)
            race = console.race()
            if console.game.laps_done(race) > laps:
                laps += 1
                times.append(race["last_lap"] / 60)
        if last == 2:
            for _ in range(100):
                console.step(driver.act(console.race()), 5)
            file.write_bytes(gzip.compress(console.save()))
    file.with_name("over.state").write_bytes(gzip.compress(console.save()))
    console.close()
    return file, times[2:]


def test_drive_from_a_late_state_times_the_laps_left(late_state: tuple[Path, list[float]]) -> None:
    file, times = late_state
    assert lap_times(str(file)) == pytest.approx(times, abs=0.02)
    assert lap_times(str(file), laps=1) == pytest.approx(times[:1], abs=0.02)


def test_drive_command_reports_the_laps_left(late_state: tuple[Path, list[float]], capsys, tmp_path: Path) -> None:
    file, times = late_state
    assert main(["circuit", "drive", str(file), "MarioCircuit.Act2", "--laps", "4"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if " of " in line]
    told = ", ".join(f"{seconds:.1f}" for seconds in times)
    assert re.search(rf"late .*3 of 3 .*{told} s", rows[0])
    assert re.search(r"MarioCircuit\.Act2 .*4 of 4", rows[1])
    gif = tmp_path / "both.gif"
    assert main(["circuit", "drive", str(file), "MarioCircuit.Act2", "-o", str(gif)]) == 0
    with Image.open(gif) as picture:
        assert (picture.size, picture.n_frames) == ((512, 100), 84)


def test_drive_from_a_race_that_is_over_is_refused(late_state: tuple[Path, list[float]], capsys) -> None:
    over = late_state[0].with_name("over.state")
    assert main(["circuit", "drive", str(over)]) == 2
    assert "the race is over in this state" in capsys.readouterr().err


def test_map_shows_numbered_points_and_the_direction(tmp_path: Path) -> None:
    (tmp_path / "Mine.toml").write_text(OVAL)
    for more in ((), ("--points",)):
        assert run("circuit", "draw", *more, "Mine.toml", "-o", f"{len(more)}.png", cwd=tmp_path).returncode == 0
    plain, marked = (np.asarray(Image.open(tmp_path / f"{number}.png")) for number in (0, 1))
    changed = (plain != marked).any(-1)[:, :1024]
    line = line_of(parse(OVAL, "OVAL"))
    for x, y, _ in parse(OVAL, "OVAL").points:
        assert changed[int(y) - 7 : int(y) + 7, int(x) - 7 : int(x) + 7].all(), "a disc with the number"
    for number in range(12):
        sample = line.nearest_sample(number + 0.5)
        (x, y), (ux, uy) = line.xy[sample], line.ahead(sample)
        behind, ahead = (changed[int(y + k * uy) - 8 :, int(x + k * ux) - 8 :][:16, :16].sum() for k in (-8, 8))
        assert behind > ahead, "an arrow is wide at its back"


def test_faulty_circuit_is_drawn_and_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        OVAL.replace("[874, 512, 80]", "[1000, 512, 80]") + 'patches = [{ ground = "mud", x = 500, y = 500 }]'
    )
    result = run("circuit", "draw", "mine.toml", cwd=tmp_path)
    assert result.returncode == 0
    assert "mine.toml: the road leaves the map near point 6" in result.stderr
    assert "mine.toml: asphalt has no patches of mud; there are: none" in result.stderr
    with Image.open(tmp_path / "mine.png") as picture:
        assert picture.size == (1024, 1024)
    result = run("circuit", "build", "mine.toml", cwd=tmp_path)
    assert result.returncode == 2
    assert "mine.toml: the road leaves the map" in result.stderr
    assert "(and 1 more: kartrl circuit check)" in result.stderr
    assert not (tmp_path / "mine.state").exists()


def test_random_from_the_command_line(tmp_path: Path) -> None:
    result = run("circuit", "random", "--seed", "5", "--kind", "beach", "-n", "2", "-o", str(tmp_path), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    names = [f"random.beach.{number:04}.{end}" for number in (5, 6) for end in ("png", "state", "toml")]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert parse((tmp_path / "random.beach.0005.toml").read_text(), "") == random_circuit(5, "beach")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "none.toml"), "none.toml: cannot read"),
        (("draw",), "no circuit given: pass a .toml, a .state or a name, or --all"),
        (
            ("draw", "Nowhere"),
            "no circuit 'Nowhere': pass a .toml, a .state or a bundled circuit: BowserCastle.Act1 (Ember Keep)",
        ),
        (("drive", "mine"), "no circuit 'mine': pass a .toml"),
        (("draw", "--points", "MarioCircuit.Act1"), "MarioCircuit.Act1: --points needs a .toml"),
        (("drive", "MarioCircuit.Act1", "MarioCircuit.Act2", "-o", "film.mp4"), "-o film.mp4: one film per circuit"),
        (("drive", "MarioCircuit.Act1", "-o", "/dev/null/film.mp4"), "/dev/null/film.mp4: cannot write"),
        (("drive", "none.state"), "none.state: no such start state"),
        (("random", "--kind", "grass"), "unknown kind of circuit 'grass'; choose one of: asphalt"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("circuit", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_gif_shows_the_first_seconds_on_several_circuits(tmp_path: Path) -> None:
    run("circuit", "drive", "MarioCircuit.Act1", "VanillaLake.Act1", "-o", "new/drives.gif", cwd=tmp_path)
    with Image.open(tmp_path / "new" / "drives.gif") as picture:
        assert picture.size == (512, 100)
        assert picture.n_frames == 84
        first = np.asarray(picture.convert("RGB"))
        picture.seek(60)
        last = np.asarray(picture.convert("RGB"))
    for half in (slice(0, 256), slice(256, 512)):
        assert np.any(first[:, half] != last[:, half])
