"""`kartrl race`: policies, recorded drives and the scripted driver against each other; its films are decoded again."""

import contextlib
import itertools
import json
import re
from pathlib import Path

import av
import numpy as np
import pytest
from documented_fields import check_fields, documented
from needs import needs_kart
from PIL import Image
from players import LEFT, RIGHT, B, begun, drive, some_driving
from policies import CARTPOLE, KART, save_policy

from kartrl.cli import main
from kartrl.console.movie import read_movie, write_movie
from kartrl.driving.driver import open_driver
from kartrl.kart.console import KartConsole
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.kart.race.drives import Grid, Recording, drive_inputs, drive_policy, open_grid, script
from kartrl.kart.race.film import RaceFilm
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import find_game
from kartrl.retro.play import Play
from kartrl.viewer.podium import COLOURS
from kartrl.viewer.window import Canvas

ACT1, ACT2 = "MarioCircuit.Act1", "MarioCircuit.Act2"
SHORT = ["-l", ACT1, "--seconds", "3"]
AIRSTRIKER = ("environment.id=retro/Airstriker-Genesis-v0", "retro.actions=none left B", "model.hidden_size=16")
FILMED = ("environment.id=filmed:Filmed-v0", "model.hidden_size=16")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policies that see and do different things, and a drive of one's own, on `ACT1`."""
    folder = tmp_path_factory.mktemp("racers")
    save_policy(folder / "logs" / "small", KART)
    save_policy(folder / "logs" / "large", [*KART, "environment.frame_skip=5", "environment.frame_stack=3"])
    save_policy(folder / "logs" / "airstriker", AIRSTRIKER)
    save_policy(folder / "logs" / "pole", CARTPOLE)
    save_policy(folder / "logs" / "pole-2", [*CARTPOLE, "model.hidden_size=32"], agent_steps=2000)
    stage, session = begun(circuits=(ACT1,))
    with stage:
        drive(session, [B] * 20 + some_driving(140))
        write_movie(folder / "mine.bk2", session.movie())
    return folder


def shoot(file: Path, frames: int = 400, after: int = 0) -> list[float]:
    """Play Airstriker, and record it; returns the return after each frame.

    Args:
        after: frames that are played before it begins.
    """
    with contextlib.closing(RetroConsole(find_game("Airstriker-Genesis-v0"))) as console:
        played, totals = Play(console, ["Level1"]), [0.0]
        for _ in range(after):
            played.advance(B)
        state = console.save()
        for held in itertools.islice(itertools.cycle((B, LEFT, B, RIGHT)), frames // 4):
            for _ in range(4):
                played.advance(held)
                totals.append(played.total)
        played.save_movie(file)
        if after:
            write_movie(file, read_movie(file)._replace(state=state))
    return totals


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with the runs and the drive of `folder` in reach."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARTRL_LOGS", str(folder / "logs"))
    return tmp_path


def decode(path: Path) -> tuple[str, str, float, list[np.ndarray]]:
    """Codec, format of the pixels, pictures per second, and the pictures."""
    with av.open(str(path)) as container:
        (stream,) = container.streams.video
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return stream.codec_context.name, stream.codec_context.pix_fmt, float(stream.average_rate), pictures


@needs_kart
def test_everybody_races_in_one_film(folder: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racers = ["small", "large", str(folder / "mine.bk2"), "scripted"]
    for _ in range(2):
        assert main(["race", *racers, *SHORT, "-o", "duel.mp4", "--json"]) == 0
        printed = capsys.readouterr()
    assert ACT1 in printed.err
    said = json.loads(printed.out)
    check_fields(said, documented("race"))
    assert [one["name"] for one in said["competitors"]] == ["small 1000", "large 1000", "mine", "scripted"]
    assert [one["source"] for one in said["competitors"]][2:] == [str(folder / "mine.bk2"), "scripted"]
    (race,) = said["races"]
    (best,) = (one for one in race["results"] if one["place"] == 1)
    assert (best["name"], best["points"], best["finished"]) == ("scripted", 10, False)
    assert min(min(one["gate_gaps"], default=0) for one in race["results"]) == 0
    assert best["gate_gaps"][-1] == 0
    assert best["gates"] == sorted(best["gates"])
    assert said["film"] == "duel-2.mp4"

    codec, pixels, fps, pictures = decode(here / "duel.mp4")
    assert (codec, pixels, fps) == ("h264", "yuv420p", 30)
    assert pictures[0].shape == (672, 1056, 3)
    assert len(pictures) == (3 + 5) * 30, "the race, and the podium"
    with Image.open(here / "duel.png") as podium:
        assert np.abs(np.asarray(podium).astype(int) - pictures[-1]).mean() < 4
    assert (here / "duel.mp4").read_bytes() == (here / "duel-2.mp4").read_bytes(), "the same film each time"


@pytest.fixture(scope="module")
def consoles():
    """Three consoles of the bundled game."""
    made = [KartConsole(GAMES / BUNDLED) for _ in range(3)]
    yield made
    for console in made:
        console.close()


def record(consoles: list[KartConsole], ticks: int) -> tuple[Grid, list[Recording]]:
    """Drives of the scripted driver, of one who stands for a while, and of one who goes straight on."""
    grid = open_grid(consoles[0], ACT1)
    inputs = (script(consoles[0]), [0] * 60 + [B] * ticks, [0] + [B] * ticks)
    return grid, [
        drive_inputs(console, grid, grid.state, buttons, ticks, lambda: None)
        for console, buttons in zip(consoles, inputs, strict=True)
    ]


@needs_kart
def test_a_policys_drive_is_replayed_to_the_bit(folder: Path, consoles: list[KartConsole]) -> None:
    path = folder / "logs" / "large" / "checkpoints" / "0000001000.pt"
    grid = open_grid(consoles[0], ACT1)
    with open_driver(path, [ACT1], "cpu") as driver:
        driven = drive_policy(driver, consoles[0], grid, greedy=False, seed=1, limit=400, on_step=lambda: None)
    again = drive_inputs(consoles[0], grid, driven.movie.state, driven.movie.inputs, 400, lambda: None)
    assert len(driven.places) > 60
    assert again == driven


@needs_kart
def test_view_shows_ghosts_where_they_drove(consoles: list[KartConsole]) -> None:
    grid, recordings = record(consoles, 200)
    film = RaceFilm(grid, consoles, recordings, ["one", "two", "three"], camera=1)
    canvas = Canvas()
    frames = [*film.frames(canvas)]
    canvas.close()
    assert len(frames) == 100
    for console, recording in zip(consoles, recordings, strict=True):
        race, last = console.race(), recording.places[-1]
        assert (race["x"], race["y"], race["kart_angle"]) == last[:3], "as recorded, whether seen or not"
    race = consoles[1].race()
    assert race["opponents"] == 0x82
    assert (race["opponent1_x"], race["opponent1_y"]) == recordings[0].places[-1][:2]
    among = [recording._replace(alone=False) for recording in recordings]
    alone = RaceFilm(grid, consoles, among, ["one", "two", "three"], camera=1)
    canvas = Canvas()
    without = [*alone.frames(canvas)]
    canvas.close()
    view = slice(0, 324), slice(0, 768)
    assert np.array_equal(frames[0][view], without[0][view]) is False, "plates, and karts on the line"
    colour = np.array(COLOURS[0])
    assert any((frame[view] == colour).all(-1).sum() > 50 for frame in frames), "the border of a name plate"
    assert not any((frame[view] == colour).all(-1).sum() > 50 for frame in without)


@needs_kart
def test_the_leader_is_filmed_and_gaps_are_those_at_gates(consoles: list[KartConsole]) -> None:
    grid, recordings = record(consoles, 300)
    first = max(range(3), key=lambda number: len(recordings[number].gates))
    assert first == 0
    order = sorted(range(3), key=lambda number: recordings[number].standing(300))
    assert order[0] == first
    assert order.index(2) < order.index(1), "who started later is behind"
    film = RaceFilm(grid, consoles, recordings, ["one", "two", "three"], camera=None)
    canvas = Canvas()
    *_, last = film.frames(canvas)
    canvas.close()
    assert np.array_equal(consoles[0].picture()[20:36, :60].repeat(3, 0).repeat(3, 1), last[60:108, :180])


def common_fields() -> list[str]:
    """The fields of races in all environments."""
    return [field for field in documented("race") if not re.search("finished|seconds|laps|gaps|gates", field)]


def test_policies_of_other_environments_play_side_by_side(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["race", "pole", "pole-2", "-o", "poles", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    check_fields(said, [*common_fields(), *documented("race", 1)])
    results = {one["name"]: one for one in said["races"][0]["results"]}
    assert said["races"][0]["level"] == "CartPole-v1"
    codec, pixels, fps, pictures = decode(here / "poles.mp4")
    assert (codec, pixels, fps) == ("h264", "yuv420p", 25), "every second of 50 pictures"
    longest = max(one["length"] for one in results.values())
    assert len(pictures) == 1 + -(-longest // 2) + 5 * 25
    for name, run in (("pole 1000", "pole"), ("pole-2 2000", "pole-2")):
        assert main(["evaluate", run, "--episodes", "1", "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)["checkpoints"][0]["episodes"][0]
        assert (results[name]["return"], results[name]["length"]) == (alone["return"], alone["length"])
    best = max(results.values(), key=lambda one: one["return"])
    assert best["place"] == 1


@needs_kart
@pytest.mark.parametrize("racers", [["airstriker", "one.bk2", "two.bk2"], ["two.bk2", "one.bk2"]])
def test_recorded_retro_drives_race_by_their_returns(
    racers: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = {"one": shoot(Path("one.bk2")), "two": shoot(Path("two.bk2"), 160)}
    assert totals["one"][-1] > 0
    assert main(["race", *racers, "--seconds", "6", "--no-film", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    check_fields(said, [*common_fields(), *documented("race", 1)])
    named = [one["name"] for one in said["competitors"]]
    assert named == [name.removesuffix(".bk2").replace("airstriker", "airstriker 1000") for name in racers]
    (race,) = said["races"]
    assert race["level"] == "Level1"
    for one in race["results"]:
        if one["name"] in totals:
            frames = min(len(totals[one["name"]]) - 1, 360)
            assert (one["return"], one["length"], one["ended"]) == (totals[one["name"]][frames], frames, False)
    if racers[0] == "airstriker":
        assert main(["race", *racers, "--seconds", "1", "-o", "a.mp4"]) == 0
        *_, pictures = decode(here / "a.mp4")
        assert len(pictures) == 1 + (1 + 5) * 30


@needs_kart
def test_grand_prix_adds_points(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "drives").mkdir()
    for circuit in (ACT1, ACT2):
        stage, session = begun(circuits=(circuit,))
        with stage:
            write_movie(here / "drives" / f"{circuit}.bk2", drive(session, [0] * 30).movie())
    racers = ["scripted", "small", "small", "drives"]
    assert main(["race", *racers, "-l", f"{ACT1},{ACT2}", "--seconds", "2", "--no-film", "--json"]) == 0
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert [race["level"] for race in said["races"]] == [ACT1, ACT2]
    standing = said["standing"]
    assert [one["name"] for one in standing] == ["scripted", "small 1000", "small 1000 2", "drives"]
    assert (standing[0]["place"], standing[0]["points"]) == (1, 20)
    assert (standing[1]["place"], standing[1]["points"]) == (standing[2]["place"], standing[2]["points"])
    for number, one in enumerate(standing):
        assert one["points"] == sum(race["results"][number]["points"] for race in said["races"])
    assert "grand prix" in printed.err
    assert main(["race", "scripted", "small", "-l", ACT1, "--seconds", "1", "--no-film", "--csv"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.startswith("level,name,place,points,finished")
    assert [row.split(",")[1] for row in rows] == ["scripted", "small 1000"]
    assert [*here.iterdir()] == [here / "drives"]
    assert main(["race", *racers, "-l", "MarioCircuit.Act3", "--no-film"]) == 2
    assert "drives: of its recorded drives, none is of MarioCircuit.Act3" in capsys.readouterr().err
    (here / "drives" / "again.bk2").write_bytes((here / "drives" / f"{ACT2}.bk2").read_bytes())
    assert main(["race", *racers, "-l", ACT2, "--no-film"]) == 2
    assert f"drives/{ACT2}.bk2 and drives/again.bk2 are of {ACT2}; name one" in capsys.readouterr().err


@needs_kart
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["small"], "2 to 8 competitors"),
        (["scripted"] * 9, "2 to 8 competitors"),
        (["small", "smal"], "did you mean the run small?"),
        (["small", "missing.bk2"], "no such recorded drive"),
        (["small", "pole"], "trained on CartPole-v1, not on kartrl/Kart-v0"),
        (["pole", "scripted"], "scripted driver races on kart circuits alone"),
        (["pole", "mine.bk2"], "recorded drives are of the kart and of retro games; there are none of CartPole-v1"),
        (["airstriker", "mine.bk2"], "mine.bk2: recorded in KartRL-Snes, not in Airstriker-Genesis-v0"),
        (["airstriker", "scripted"], "scripted driver races on kart circuits alone"),
        (["airstriker", "shots.bk2", "-l", "power on"], "shots.bk2: begins at Level1, not at power on"),
        (["airstriker", "late-shots.bk2"], "late-shots.bk2: does not start where episodes at Level1 do"),
        (["airstriker", "nowhere.bk2"], "nowhere.bk2: recorded in Nowhere-Nes-v0, not in Airstriker-Genesis-v0"),
        (["small", "shots.bk2"], "shots.bk2: recorded in Airstriker-Genesis-v0, not on a kart circuit"),
        (["nowhere.bk2", "shots.bk2"], "stable-retro has no game 'Nowhere-Nes-v0'; the nearest is"),
        (["shots", "airstriker", "-l", "power on"], "shots: of its recorded drives, none begins at power on"),
        (["shots", "airstriker"], "shots/a.bk2 and shots/b.bk2 begin at Level1; name one"),
        (["pole", "pole-2", "-l", ACT1], "has no levels"),
        (["pole", "pole-2", "--camera", "pole"], "all are seen side by side"),
        (["scripted", "mine.bk2", "-l", ACT2], f"mine.bk2: recorded on {ACT1}, not on {ACT2}"),
        (["scripted", "other.bk2", "-l", ACT1], f"other.bk2: recorded on another circuit than {ACT1}"),
        (["scripted", "late.bk2"], "late.bk2: does not start where races"),
        (["scripted", "broken.bk2"], "broken.bk2: cannot read this movie"),
        (["scripted", "small", "--camera", "me"], "choose from scripted, small 1000"),
        (["scripted", "small", "-o", "a.avi"], "must end in .mp4"),
        (["scripted", "small", "-o", "missing/a.mp4"], "missing/a.mp4: cannot write"),
        (["scripted", "small", "-l", "MarioCircuit.Act9"], "MarioCircuit.Act1"),
        (["scripted", "small", "-o", "a.mp4", "--no-film"], "leave --no-film out"),
    ],
)
def test_bad_racers_are_one_line_and_leave_nothing(
    arguments: list[str], said: str, folder: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "mine.bk2").write_bytes((folder / "mine.bk2").read_bytes())
    (here / "broken.bk2").write_bytes(b"no movie")
    for name, circuit, ticks in (("other", ACT2, 0), ("late", ACT1, 90)):
        stage, session = begun(circuits=(circuit,))
        with stage:
            drive(session, [B] * ticks)
            movie = drive(session, [B] * 9).movie()
            state = session.console.save() if ticks else movie.state
        write_movie(here / f"{name}.bk2", movie._replace(circuit=ACT1, state=state))
    if any("shots" in name or "nowhere" in name for name in arguments):
        (here / "shots").mkdir()
        for name in ("shots.bk2", "shots/a.bk2", "shots/b.bk2", "nowhere.bk2"):
            shoot(here / name, 8)
        shoot(here / "late-shots.bk2", 8, after=60)
        write_movie(here / "nowhere.bk2", read_movie(here / "nowhere.bk2")._replace(game="Nowhere-Nes-v0"))
    before = {*here.iterdir()}
    assert main(["race", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert {*here.iterdir()} == before


def test_ctrl_c_leaves_no_film(
    here: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "filmed")
    paths = [
        str(save_policy(folder / "logs" / f"stopped{at}", [*FILMED, f"environment.kwargs.stopped={at}"]))
        for at in (-1, 9)
    ]
    assert main(["race", *paths, "--seconds", "2"]) == 130
    assert [*here.iterdir()] == []
