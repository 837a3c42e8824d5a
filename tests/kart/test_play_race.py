"""Races without a window: lap times, ghosts, start states."""

import hashlib
import importlib.util
import os
from pathlib import Path

import gymnasium
import pytest
from karts import START, steer
from players import CIRCUIT, PLACE, B, begun, drive, on_stable_retro, some_driving
from policies import KART, save_policy

from kartrl.console.movie import write_movie
from kartrl.console.states import write_state
from kartrl.errors import UserError
from kartrl.kart import cartridge
from kartrl.kart.console import KartConsole
from kartrl.kart.play.question import place
from kartrl.kart.play.stage import Options, Stage

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"
)


@pytest.fixture(scope="module")
def race_inputs() -> list[int]:
    """The buttons of each tick of a race of the scripted driver in the environment; sets `LAP_TIMES`."""
    env = gymnasium.make("kartrl/Kart-v0", circuit=CIRCUIT, game="bundled", frame_skip=4).unwrapped
    _, info = env.reset(seed=1, options=START)
    inputs, ended = [], False
    while not ended:
        action = steer(env, info, 2)
        _, _, _, ended, info = env.step(action)
        assert ended == info["finished"]
        inputs += [env.buttons[action]] * 4
    env.close()
    LAP_TIMES[:] = info["lap_times"]
    return inputs


LAP_TIMES: list[float] = []  # of `race_inputs`


def test_session_movie_and_ghost_agree_on_a_complete_race(race_inputs: list[int], tmp_path: Path) -> None:
    """Lap times equal the environment's, the movie ends with the race, and as a ghost it retraces its drive."""
    stage, session = begun(circuits=(CIRCUIT,))
    with stage:
        places = []
        for buttons in race_inputs:
            session.tick(buttons)
            places.append(session.console.race())
        assert session.ended
        times = session.drive.seconds
        assert times == pytest.approx(LAP_TIMES, abs=0.08), "an agent observes the clock at every fourth tick only"
        race = session.console.race()
        assert (session.best, times[-1]) == pytest.approx((race["best_lap"] / 60, race["last_lap"] / 60), abs=0.02), (
            "the game's own"
        )
        ticks = session.ticks
        assert len(race_inputs) - 4 <= ticks - 1 <= len(race_inputs)
        drive(session, [B] * 30)
        assert session.ticks == len(session.movie().inputs) == ticks
        write_movie(tmp_path / "race.bk2", session.movie())
        session.begin()
        assert (session.ended, session.ticks, session.drive.seconds) == (False, 1, ())
        assert session.best == min(times), "kept for the next race"

    stage, session = begun(ghost=tmp_path / "race.bk2")
    late = 30
    with stage:
        assert session.ghost is not None
        assert session.circuit == CIRCUIT, "that of the movie, where none is named"
        drive(session, [0] * late)
        assert session.gap == pytest.approx(late / 60, abs=0.12), "it stands, and the ghost does not"
        for tick, buttons in enumerate(race_inputs[:900]):
            session.tick(buttons)
            ghost, shown = places[tick + late], session.console.race()
            assert session.ghost.race == ghost
            assert (shown["opponent1_x"], shown["opponent1_y"]) == (ghost["x"], ghost["y"])
            assert shown["opponent1_angle"] == ghost["kart_angle"]
            if shown["speed"] > 100:
                assert session.gap == pytest.approx(late / 60, abs=0.12)
        own = session.console.race()
        assert {name: own[name] for name in PLACE} == {name: places[899][name] for name in PLACE}, (
            "a ghost is never touched"
        )
        write_movie(tmp_path / "second.bk2", session.movie())
        *_, info = on_stable_retro(stage.folder, tmp_path / "second.bk2")
        assert {name: info[name] for name in PLACE} == {name: own[name] for name in PLACE}, "its movie needs no ghost"


def test_movie_reproduces_opponents(tmp_path: Path) -> None:
    stage, session = begun(circuits=(CIRCUIT,), opponents=3)
    with stage:
        drive(session, [0] * 60 + some_driving(200))
        assert session.rank == 4
        race = session.console.race()
        assert race["opponents"] == 3
        write_movie(tmp_path / "race.bk2", session.movie())
        *_, state, info = on_stable_retro(stage.folder, tmp_path / "race.bk2")
        assert info == race
        assert state == hashlib.sha256(session.console.save()).hexdigest()
        start = session.state()
    console = KartConsole("bundled")
    console.restore(start)
    assert console.race()["opponents"] == 0
    console.close()
    stage, session = begun(ghost=tmp_path / "race.bk2")
    with stage:
        assert session.ghost is not None
        assert session.ghost.name == "race.bk2, among 3 opponents", "the player, who has none, is told"


def test_policy_ghost_drives_as_in_evaluation(tmp_path: Path) -> None:
    """At every step it is where the environment's own kart is, and in between it has moved on tick by tick."""
    from kartrl.driving.driver import open_driver
    from kartrl.driving.episodes import steps

    policy = save_policy(tmp_path, KART)
    with open_driver(policy, [CIRCUIT], "cpu") as driver:
        start = {"circuit": CIRCUIT, "noop": 0}
        drives = steps(driver.env, driver.network, start, greedy=True, seed=0)
        infos = [step.info for step in drives]
    stage, session = begun(circuits=(CIRCUIT,), checkpoint=policy)
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


def test_ghost_trained_among_opponents_drives_the_players_race(tmp_path: Path) -> None:
    """It is where the same network without opponents is, and its console has none."""
    from kartrl.driving.driver import open_driver
    from kartrl.driving.episodes import steps

    policy = save_policy(tmp_path, [*KART, "kart.opponents=5"])
    with open_driver(policy, [CIRCUIT], "cpu", overrides=["kart.opponents=0"]) as driver:
        start = {"circuit": CIRCUIT, "noop": 0}
        alone = [step.info for step in steps(driver.env, driver.network, start, greedy=True, seed=0)]
    stage, session = begun(circuits=(CIRCUIT,), checkpoint=policy)
    with stage:
        ghost = session.ghost
        assert ghost is not None
        for info in alone:
            assert (ghost.race["x"], ghost.race["y"], ghost.race["opponents"]) == (info["x"], info["y"], 0)
            drive(session, [0] * 4)


def test_saved_states_contain_neither_commands_nor_the_ghost(tmp_path: Path, movie_file: Path) -> None:
    """A start state made in the middle of a race against a ghost; making it does not disturb the race."""
    inputs = some_driving(400, seed=8)
    states_of = []
    for made in (False, True):
        stage, session = begun(ghost=movie_file)
        with stage:
            drive(session, inputs[:200])
            if made:
                write_state(tmp_path / "here.state", session.state())
                before = session.console.race()
            drive(session, inputs[200:])
            states_of.append(session.console.save())
    assert states_of[0] == states_of[1]
    console = KartConsole("bundled", str(tmp_path / "here.state"))
    race = console.race()
    assert (race["ticks"], race["opponents"]) == (0, 0)
    assert {name: race[name] for name in PLACE} == {name: before[name] for name in PLACE}
    console.close()
    assert os.stat(tmp_path / "here.state").st_mode & 0o777 == 0o600


def test_names_of_states_resolve_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path))
    own, bundled = cartridge.folder(), Path("elsewhere")
    assert place(own, " MarioCircuit.Act1 ") == own / "MarioCircuit.Act1.state"
    assert place(bundled, "MarioCircuit.Act1") == Path("MarioCircuit.Act1.state")
    for folder in (own, bundled):
        assert place(folder, "/some/where/bend") == Path("/some/where/bend.state")
        assert place(folder, "bend.state") == Path("bend.state")
        for text in ("", "  ", "a\0b", "/", "../", ".state", "x/.."):
            with pytest.raises(UserError):
                place(folder, text)
    with pytest.raises(UserError, match="not a circuit of the cartridge"):
        place(own, "MyCircuit")
    with pytest.raises(UserError, match="cannot write"):
        write_state(tmp_path / "no" / "folder.state", b"state")


@pytest.fixture
def own_cartridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundled game's ROM in the place of an owner's cartridge, without any start state."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / "data"))
    with Stage(Options(game="bundled")) as stage:
        rom = (stage.folder / "rom.sfc").read_bytes()
    (tmp_path / "own.sfc").write_bytes(rom)
    return cartridge.import_rom(tmp_path / "own.sfc", None, hashlib.sha1(rom).hexdigest(), len(rom))


def test_start_states_of_a_cartridge_can_be_saved_and_trained_on(own_cartridge: Path) -> None:
    """From switching the console on to an environment that trains on what was made."""
    with Stage(Options(game="cartridge")) as stage:
        session = stage.first()
        assert session is not None, "with no start state there is nothing to choose from"
        drive(session, some_driving(300))
        assert not session.ended
        session.begin()
        assert session.console.race()["lap"] != 129
        drive(session, [0] * 120 + [B] * 60)
        write_state(place(stage.folder, CIRCUIT), session.state())
        race = session.console.race()
        assert stage.choices() == [CIRCUIT, ""]
    env = gymnasium.make("kartrl/Kart-v0", circuit=CIRCUIT, game="cartridge", frame_skip=4).unwrapped
    _, info = env.reset(options={"noop": 0})
    assert abs(info["x"] - race["x"]) + abs(info["y"] - race["y"]) < 6
    assert sorted(file.name for file in own_cartridge.iterdir()) == ["MarioCircuit.Act1.state", "rom.sfc"]
    env.close()
