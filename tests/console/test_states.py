"""Start states and movies of another game or emulator are refused before the emulator reads them."""

import gzip
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import assert_clear

from kartrl.cli import main
from kartrl.console.movie import read_movie
from kartrl.console.states import read_state, write_state
from kartrl.errors import UserError
from kartrl.retro.console import RetroConsole
from kartrl.retro.library import Game, find_game, game_in
from kartrl.retro.play import Play

pytest.importorskip("stable_retro", reason="no emulators on this platform")

ROM_END = 16 + 0x4000  # place in the file after the ROM's instructions


@pytest.fixture
def open_console() -> Iterator[Callable[..., RetroConsole]]:
    """Opens consoles, closed at the end."""
    made: list[RetroConsole] = []

    def open_(game: Game, isolated: bool = False) -> RetroConsole:
        made.append(RetroConsole(game, isolated=isolated))
        return made[-1]

    yield open_
    for each in made:
        each.close()


@pytest.fixture
def other(tmp_path: Path) -> Game:
    """Another game of the same console and size."""
    folder = tmp_path / "other"
    folder.mkdir()
    rom = bytearray(find_game("Rapids-Nes-v0").rom().read_bytes())
    rom[ROM_END] ^= 1  # a pixel
    (folder / "rom.nes").write_bytes(rom)
    return game_in(folder)


def test_state_of_another_game_is_refused(
    open_console: Callable[..., RetroConsole], other: Game, tmp_path: Path
) -> None:
    file = tmp_path / "here.state"
    foreign = open_console(other)
    foreign.keep(file)
    assert gzip.decompress(file.read_bytes()) == foreign.save(), "stable-retro reads it too"
    foreign.load_state(file)
    console = open_console(find_game("Rapids-Nes-v0"))
    before = console.save()
    with pytest.raises(UserError, match=r"here\.state: saved in another game, .*SHA-1 \w{40}, not \w{40}\); choose "):
        console.load_state(file)
    assert console.save() == before


@pytest.mark.parametrize("name", ["", "Level1", "0" * 300])
def test_state_that_names_no_rom_is_accepted(
    name: str, open_console: Callable[..., RetroConsole], tmp_path: Path
) -> None:
    console = open_console(find_game("Rapids-Nes-v0"))
    state = console.save()
    with open(tmp_path / "a.state", "wb") as file, gzip.GzipFile(name, "wb", fileobj=file) as packed:
        packed.write(state)
    console.load_state(tmp_path / "a.state")
    assert console.save() == state


def test_name_behind_an_extra_field_is_found(tmp_path: Path) -> None:
    write_state(tmp_path / "a.state", b"state", "1" * 40)
    packed = bytearray((tmp_path / "a.state").read_bytes())
    packed[3] |= 4
    packed[10:10] = b"\3\0abc"
    (tmp_path / "a.state").write_bytes(packed)
    assert read_state(tmp_path / "a.state", "1" * 40) == b"state"
    with pytest.raises(UserError, match="saved in another game"):
        read_state(tmp_path / "a.state", "2" * 40)


def test_movie_of_another_rom_is_refused(
    open_console: Callable[..., RetroConsole],
    other: Game,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Play(open_console(other), [""]).save_movie(tmp_path / "a.bk2")
    assert main(["play", "--game", "retro/other", "--replay", "a.bk2", "-o", "a.mp4"]) == 0
    shutil.copy(find_game("Rapids-Nes-v0").rom(), tmp_path / "other")
    assert main(["play", "--game", "retro/other", "--replay", "a.bk2", "-o", "b.mp4"]) == 2
    assert "a.bk2: recorded with another ROM (SHA-1 " in capsys.readouterr().err


def test_damaged_movie_is_not_quoted_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.bk2"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("Input Log.txt", "[Input]\n" * 1000)
    packed = bytearray(file.read_bytes())
    packed[26:28] = (5000).to_bytes(2, "little")  # the length of the name before the log, unlike the directory's
    file.write_bytes(packed)
    with pytest.raises(UserError, match="cannot read this movie") as caught:
        read_movie(file)
    assert_clear(caught.value)


def test_state_of_another_emulator_does_not_reach_it(open_console: Callable[..., RetroConsole], tmp_path: Path) -> None:
    """Stella would crash."""
    pytest.importorskip("ale_py", reason="has the ROM")
    file = tmp_path / "a.state"
    write_state(file, open_console(find_game("Rapids-Nes-v0")).save()[:600])
    console = open_console(find_game("Pong-Atari2600-v0"), isolated=True)
    with pytest.raises(UserError, match=r"a\.state: the emulator rejects this state: it is damaged, or from another"):
        console.load_state(file)
    console.begin_episode("Start")
