"""Start states and movies that crash the emulator, or keep it for ever: one line, and signals work."""

import importlib.util
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from commands import EVALUATE_OFF, assert_clear, has_ended, run, start, titled, wait_for
from hostile import CRASHES, HANGS, STATE, write_hostile_movie, write_hostile_state
from policies import KART, save_policy

from kartrl.console import isolated_emulator
from kartrl.console.states import read_state
from kartrl.errors import UserError
from kartrl.kart.console import KartConsole
from kartrl.kart.game_files import BUNDLED, GAMES, core_file

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_retro") is None, reason="no SNES emulator on this platform"
)
# Seconds for its answer: a crash, which may come late on a busy machine, ends the wait by itself.
SOON, NEVER = "emulator=3", "emulator=1000"
CAUSES = {HANGS: "hangs", CRASHES: "crashed (killed by SIGSEGV)"}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_policy(tmp_path_factory.mktemp("kart"), KART))


def assert_refused(done: "subprocess.CompletedProcess[str]", file: Path, block: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert str(file) in done.stderr
    assert CAUSES[block] in done.stderr


# Each command meets one of the two causes, both of which they have from the same emulator.


def test_evaluate_refuses_a_state_that_hangs(tmp_path: Path, policy: str) -> None:
    file = write_hostile_state(tmp_path / "odd.state", HANGS)
    assert_refused(run("evaluate", "-p", policy, "-l", str(file), cwd=tmp_path, faults=SOON), file, HANGS)


def test_record_refuses_a_state_that_crashes(tmp_path: Path, policy: str) -> None:
    file = write_hostile_state(tmp_path / "odd.state", CRASHES)
    done = run("record", "-p", policy, "-l", str(file), cwd=tmp_path, faults=NEVER)
    assert_refused(done, file, CRASHES)
    assert list(tmp_path.iterdir()) == [file]


def test_play_refuses_a_movie_that_hangs(tmp_path: Path) -> None:
    file = write_hostile_movie(tmp_path / "odd.bk2", HANGS)
    options = ("--game", "bundled", "--replay", str(file), "-o", "odd.mp4")
    assert_refused(run("play", *options, cwd=tmp_path, faults=SOON), file, HANGS)
    assert list(tmp_path.iterdir()) == [file]


def test_train_refuses_a_state_that_crashes(tmp_path: Path) -> None:
    file = write_hostile_state(tmp_path / "odd.state", CRASHES)
    levels = ("--set", f"levels.{file}=train", "--set", "kart.game=bundled")
    assert_refused(run("train", *EVALUATE_OFF, *levels, cwd=tmp_path, faults=NEVER), file, CRASHES)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_command_whose_emulator_hangs(tmp_path: Path, policy: str, number: int, status: int) -> None:
    file = write_hostile_state(tmp_path / "odd.state", HANGS)
    pipe = subprocess.PIPE
    command = start("evaluate", "-p", policy, "-l", str(file), cwd=tmp_path, stdout=pipe, stderr=pipe, faults=NEVER)
    emulators: list[psutil.Process] = []

    def hanging() -> bool:
        emulators[:] = titled(psutil.Process(command.pid).children(recursive=True), "kartrl emulator", whole=True)
        return bool(emulators)

    try:
        wait_for(hanging, 60, "the emulator")
        command.send_signal(number)
        _, errors = command.communicate(timeout=60)
    finally:
        command.kill()
    assert (command.returncode, errors) == (status, "")
    wait_for(lambda: all(map(has_ended, emulators)), 60, "the emulator's end")


def test_an_emulator_of_its_own_does_the_same() -> None:
    consoles = [KartConsole("bundled", "MarioCircuit.Act1", isolated) for isolated in (False, True)]
    try:
        seen = []
        for console in consoles:
            console.step(console.buttons(["B"]), 60)
            console.set_value("opponents", 2)
            console.step(console.buttons(["B", "LEFT"]), 7, slice(36, 108))
            seen.append((console.race(), console.screen().tobytes(), console.save()))
        assert seen[0] == seen[1]
        assert seen[0][0]["speed"] > 0
    finally:
        for console in consoles:
            console.close()


def test_a_stopped_emulator_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has not taken in all of a call."""
    emulator = isolated_emulator.IsolatedEmulator(core_file(), GAMES / BUNDLED / "rom.sfc")
    try:
        state = emulator.save()
        monkeypatch.setenv("KARTRL_FAULTS", "emulator=1")  # not before: on a busy machine `save` may take longer
        os.kill(emulator.process.pid, signal.SIGSTOP)
        with pytest.raises(isolated_emulator.EmulatorLost, match="no answer within 1 s"):
            emulator.restore(state)
        assert not emulator.process.is_alive()
    finally:
        emulator.close()


def test_a_lost_emulator_stays_lost(tmp_path: Path) -> None:
    console = KartConsole("bundled", isolated=True)
    file = write_hostile_state(tmp_path / "odd.state", CRASHES)

    def drive() -> None:
        console.begin(read_state(file), file)
        console.step(0, 60)

    try:
        for _ in range(2):
            with pytest.raises(UserError, match=r"odd\.state: the emulator crashed") as error:
                drive()
            assert_clear(error.value)
    finally:
        console.close()


def test_a_state_without_a_circuit_is_refused(tmp_path: Path) -> None:
    console, state = KartConsole("bundled"), bytearray(read_state(STATE))
    try:
        console.restore(bytes(state))
        console.set_value("checkpoint_num", 0)
        with pytest.raises(UserError, match=r"odd\.state: damaged") as error:
            console.begin(console.save(), Path("odd.state"))
        assert_clear(error.value)
    finally:
        console.close()


def test_the_menu_ends_with_the_state_that_cost_its_emulator(tmp_path: Path) -> None:
    """Otherwise it would blame the crash on every other circuit, none of which could be chosen any more."""
    from kartrl.kart.play.menu import Menu  # loads pygame
    from kartrl.kart.play.stage import Options, Stage

    for name in ("a.state", "b.state"):
        (tmp_path / name).write_bytes(STATE.read_bytes())
    with Stage(Options(circuits=(str(tmp_path),), game="bundled")) as stage:
        menu = Menu(stage)
        menu.begin()
        emulator = stage.console.emulator
        assert isinstance(emulator, isolated_emulator.IsolatedEmulator)
        os.kill(emulator.process.pid, signal.SIGKILL)
        with pytest.raises(isolated_emulator.EmulatorLost, match="killed by SIGKILL"):
            menu.begin()
