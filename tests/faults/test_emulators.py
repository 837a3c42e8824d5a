"""Emulators of retro games: damaged files are refused, a lost process costs an episode; for each core with a ROM."""

import gzip
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ENDLESS, Training, has_ended, run, steps, wait_for

from kartrl.cli import main
from kartrl.console.isolated_emulator import EmulatorLost
from kartrl.console.movie import Movie, write_movie
from kartrl.errors import UserError
from kartrl.kart.game_files import BUNDLED, GAMES
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import Game, find_game, game_in

pytest.importorskip("stable_retro", reason="no emulators on this platform")

ATARI, GENESIS, SCRIPTED = "Breakout-Atari2600-v0", "Airstriker-Genesis-v0", "Boxing-Atari2600-v0"
CORES = [GENESIS, BUNDLED, ATARI, SCRIPTED]


def game_of(name: str) -> Game:
    if name.endswith("-Atari2600-v0"):
        pytest.importorskip("ale_py", reason="has the ROM")
    return game_in(GAMES / BUNDLED) if name == BUNDLED else find_game(name)


@pytest.fixture(params=CORES)
def console(request: pytest.FixtureRequest) -> Iterator[RetroConsole]:
    """In a process of its own."""
    made = RetroConsole(game_of(request.param), isolated=True)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    return tmp_path


def played(console: RetroConsole) -> tuple[bytes, ...]:
    """The memory after a second from the default start state."""
    console.begin_episode(console.game.default_state())
    for _ in range(60):
        console.advance(1)
    return tuple(bytes(block) for block in console.opened().memory.values())


@pytest.mark.parametrize("damage", ["cut file", "cut state", "another console's", "no gzip", "empty"])
def test_damaged_start_state_is_refused(console: RetroConsole, damage: str, here: Path) -> None:
    """The game is played on as if nothing had happened."""
    game, before = console.game, played(console)
    state = gzip.decompress(game.state_file(game.default_state() or "").read_bytes())
    other = gzip.compress(state[:99] if len(state) > 100_000 else state * 1000)
    content = {
        "cut file": gzip.compress(state)[:-20], "cut state": gzip.compress(state[: len(state) // 3]),
        "another console's": other, "no gzip": b"state", "empty": gzip.compress(b""),
    }[damage]  # fmt: skip
    file = here / "odd.state"
    file.write_bytes(content)
    with pytest.raises(UserError) as raised:
        console.begin_episode(str(file))
    assert str(raised.value).startswith(f"{file}: ")
    assert "\n" not in str(raised.value)
    assert played(console) == before


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("damage", ["cut", "cut state", "another game's", "no zip"])
def test_damaged_movie_is_refused(name: str, damage: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game, file = game_of(name), here / "odd.bk2"
    state = gzip.decompress(game.state_file(game.default_state() or "").read_bytes())
    recorded = "Other-Genesis-v0" if damage == "another game's" else game.name
    movie = Movie(recorded, "", state[: len(state) // 3] if damage == "cut state" else state, (0,) * 10)
    write_movie(file, movie, game.system.buttons)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-30])
    elif damage == "no zip":
        file.write_bytes(b"movie")
    where = name
    if name == BUNDLED:
        shutil.copytree(game.folder, here / BUNDLED)
        where = f"./{BUNDLED}"
    assert main(["play", "--game", f"retro/{where}", "--replay", "odd.bk2", "-o", "a.mp4"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "odd.bk2: " in said
    assert not (here / "a.mp4").exists()


@pytest.mark.parametrize(("number", "cause"), [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, "no answer")])
def test_lost_emulator_names_its_state_and_stays_lost(
    console: RetroConsole, number: int, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(console)
    process = console.opened().process  # type: ignore[union-attr]
    os.kill(process.pid, number)
    if number == signal.SIGSTOP:
        monkeypatch.setenv("KARTRL_FAULTS", "emulator=1")
    for _ in range(2):
        with pytest.raises(EmulatorLost, match=rf"{console.game.default_state()}\.state: the emulator .*{cause}"):
            console.advance(0)
    assert not process.is_alive()


def test_training_of_a_script_survives_its_emulators(here: Path) -> None:
    """Killed ones are replaced; Ctrl-C ends all of them; the run is resumed."""
    game_of(SCRIPTED)
    settings = ["--env", f"retro/{SCRIPTED}", "--set", "retro.time_limit=5", "--set", "system.agents=1"]
    with (
        (here / "printed").open("w") as printed,
        Training(here, *ENDLESS, *settings, "--set", "system.envs_per_agent=2", output=printed) as training,
    ):
        folder = here / "logs" / "run"
        wait_for(lambda: steps(folder) > 0, 100, "training")
        wait_for(lambda: len(training.roles("emulator")) == 2, 60, "an emulator for each environment alone")
        first = training.roles("emulator")
        first[0].kill()
        wait_for(lambda: {*training.roles("emulator")} - {*first}, 100, "another emulator")
        reached = steps(folder)
        wait_for(lambda: steps(folder) > reached, 100, "training to continue")
        assert first[1].is_running()
        emulators = training.roles("emulator")
        training.process.send_signal(signal.SIGINT)
        assert training.process.wait(100) == 128 + signal.SIGINT, (here / "printed").read_text()
        wait_for(lambda: all(map(has_ended, emulators)), 60, "the emulators' end")
    done = run("train", "--resume", "run", "--set", f"run.agent_steps={steps(folder) + 100}", cwd=here)
    assert done.returncode == 0, done.stderr
