"""Import of the user's own ROM, tested with a synthetic file: no commercial ROM is needed."""

import gzip
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from kartrl.config import read
from kartrl.console.libretro import STATE_LIMIT
from kartrl.console.states import read_state
from kartrl.errors import UserError
from kartrl.kart import cartridge
from kartrl.kart.game_files import BUNDLED, GAMES, circuits, game_folder
from kartrl.kart.levels import CIRCUITS
from kartrl.kart.selection import with_circuits

ROM = bytes(range(256)) * 16
SHA1 = hashlib.sha1(ROM).hexdigest()
SIZE = len(ROM)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, which does not exist yet."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / "of" / "user"))
    return tmp_path / "of" / "user"


def rom_file(folder: Path, contents: bytes = ROM) -> Path:
    file = folder / "my game.smc"
    file.write_bytes(contents)
    return file


def states(folder: Path, **contents: bytes) -> Path:
    place = folder / "states"
    place.mkdir()
    for name, packed in contents.items():
        (place / f"{name.replace('_', '.')}.state").write_bytes(packed)
    return place


@pytest.mark.parametrize("header", [b"", b"\x40" * 512])
def test_import_with_and_without_a_copier_header(tmp_path: Path, data: Path, header: bytes) -> None:
    folder = cartridge.import_rom(rom_file(tmp_path, header + ROM), None, SHA1, SIZE)
    assert folder == data / "SuperMarioKart-Snes"
    assert [file.name for file in folder.iterdir()] == ["rom.sfc"]
    assert (folder / "rom.sfc").read_bytes() == ROM
    said = "\n".join(cartridge.summary(folder, None))
    assert "none yet" in said
    assert "--states" in said
    assert all(circuit in said for circuit in CIRCUITS)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_imported_files_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    place = states(tmp_path, MarioCircuit_Act1=gzip.compress(b"state"))
    folder = cartridge.import_rom(rom_file(tmp_path), place, SHA1, SIZE)
    for directory in (folder, folder.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_states_are_imported_and_other_files_are_reported(tmp_path: Path) -> None:
    place = states(
        tmp_path,
        MarioCircuit_Act2=gzip.compress(b"two"),
        RainbowRoad_Act1=gzip.compress(b"rainbow"),
        Menu=b"not looked at",
    )
    folder = cartridge.import_rom(rom_file(tmp_path), place, SHA1, SIZE)
    assert circuits(folder) == ("MarioCircuit.Act2", "RainbowRoad.Act1")
    assert read_state(folder / "RainbowRoad.Act1.state") == b"rainbow"
    there, missing = "\n".join(cartridge.summary(folder, place)).split("Circuits without one")
    assert "Menu.state" in there
    assert "MarioCircuit.Act2, RainbowRoad.Act1" in there
    assert "MarioCircuit.Act1" in missing


def test_import_replaces_states_only_with_force(tmp_path: Path) -> None:
    place, rom = states(tmp_path, MarioCircuit_Act1=gzip.compress(b"theirs")), rom_file(tmp_path)
    folder = cartridge.import_rom(rom, place, SHA1, SIZE)
    assert cartridge.import_rom(rom, place, SHA1, SIZE) == folder, "the same again"
    own = folder / "MarioCircuit.Act1.state"
    own.write_bytes(gzip.compress(b"mine"))
    with pytest.raises(UserError, match=r"MarioCircuit\.Act1\.state: exists.*--force"):
        cartridge.import_rom(rom, place, SHA1, SIZE)
    assert read_state(own) == b"mine"
    cartridge.import_rom(rom, place, SHA1, SIZE, force=True)
    assert read_state(own) == b"theirs"


@pytest.mark.parametrize("contents", [b"", ROM[:-1], ROM + b"\0", b"\x40" * 512 + ROM[:-1] + b"?", ROM[:-1] + b"?"])
def test_another_rom_is_rejected_with_its_hash_and_size(tmp_path: Path, data: Path, contents: bytes) -> None:
    with pytest.raises(UserError) as caught:
        cartridge.import_rom(rom_file(tmp_path, contents), None, SHA1, SIZE)
    text = str(caught.value)
    assert all(part in text for part in ("my game.smc", SHA1, f"{len(contents)} bytes", f"{SIZE} bytes", "SHA-1"))
    assert not data.exists()


def test_the_expected_rom_is_the_documented_one() -> None:
    assert cartridge.SHA1 == "47e103d8398cf5b7cbb42b95df3a3c270691163b"
    assert cartridge.SIZE == 524_288


def test_missing_files_are_rejected(tmp_path: Path, data: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.sfc"):
        cartridge.import_rom(tmp_path / "nothing.sfc", None, SHA1, SIZE)
    with pytest.raises(UserError, match="not a folder"):
        cartridge.import_rom(rom_file(tmp_path), tmp_path / "no folder", SHA1, SIZE)
    assert not data.exists()


BOMB = gzip.compress(bytes(STATE_LIMIT + 1))
DAMAGED = gzip.compress(bytes(range(256)) * 9)
DAMAGED = DAMAGED[:40] + b"\xff" * 40 + DAMAGED[80:]


@pytest.mark.parametrize(
    ("packed", "word"),
    [
        (b"plain", "cannot read"),
        (b"", "empty"),
        (gzip.compress(b"state" * 99)[:-9], "cannot read"),
        (BOMB, "MiB"),
        (DAMAGED, "cannot read"),
    ],
    ids=["plain", "empty", "cut", "bomb", "damaged"],  # gzip's bytes hold the time
)
def test_invalid_state_is_rejected_and_nothing_is_written(tmp_path: Path, data: Path, packed: bytes, word: str) -> None:
    place = states(tmp_path, MarioCircuit_Act1=gzip.compress(b"good"), MarioCircuit_Act2=packed)
    with pytest.raises(UserError, match=word) as caught:
        cartridge.import_rom(rom_file(tmp_path), place, SHA1, SIZE)
    assert "MarioCircuit.Act2.state" in str(caught.value)
    assert not data.exists()


def test_failed_write_leaves_the_earlier_import_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cartridge.import_rom(rom_file(tmp_path), None, SHA1, SIZE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        cartridge.import_rom(rom_file(tmp_path), None, SHA1, SIZE)
    assert [file.name for file in folder.iterdir()] == ["rom.sfc"]
    assert (folder / "rom.sfc").read_bytes() == ROM


def test_unusable_data_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / "file"))
    with pytest.raises(UserError, match="KARTRL_DATA"):
        cartridge.import_rom(rom_file(tmp_path), None, SHA1, SIZE)


def test_data_folder_that_cannot_be_read_has_no_cartridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is too long stands for another user's home: `Path.is_file` raises an exception for both."""
    pytest.importorskip("stable_retro")
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / ("a" * 300)))
    assert game_folder("auto").name == "KartRL-Snes"
    with pytest.raises(UserError, match="no cartridge in"):
        game_folder("cartridge")


def test_game_names_resolve_to_folders(tmp_path: Path) -> None:
    pytest.importorskip("stable_retro")
    with pytest.raises(UserError, match="import-rom"):
        game_folder("cartridge")
    with pytest.raises(UserError, match="bundled"):
        game_folder("other")
    assert game_folder("auto").name == "KartRL-Snes"
    config = read(overrides=["levels.random:3:asphalt=none"])
    before = with_circuits(config)
    folder = cartridge.import_rom(rom_file(tmp_path), None, SHA1, SIZE)
    assert game_folder("auto") == game_folder("cartridge") == folder
    assert game_folder("bundled").name == "KartRL-Snes"
    assert with_circuits(config).world.kart.game == "cartridge"
    assert with_circuits(before).world.kart.game == before.world.kart.game == "bundled", "a run stays with its game"


def test_description_of_the_cartridge_is_complete() -> None:
    """Every variable of the race state has the bundled game's address."""
    own, bundled = (json.loads((GAMES / name / "data.json").read_text())["info"] for name in (cartridge.NAME, BUNDLED))
    assert set(own) <= set(bundled)
    assert {name: bundled[name] for name in own} == own
    assert not [file for file in (GAMES / cartridge.NAME).iterdir() if file.suffix in (".sfc", ".smc", ".state")]
