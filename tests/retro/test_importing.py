"""`kartrl import-rom` and `kartrl list retro`: ROMs are recognised by their hashes, wherever they are."""

import io
import json
import stat
import zipfile
from pathlib import Path

import pytest

from kartrl.cli import main
from kartrl.retro.library import find_game

pytest.importorskip("stable_retro", reason="no emulators on this platform")

PONG, BREAKOUT = "Pong-Atari2600-v0", "Breakout-Atari2600-v0"
AIRSTRIKER = "Airstriker-Genesis-v0"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, which does not exist yet; the current folder is beside it."""
    monkeypatch.setenv("KARTRL_DATA", str(tmp_path / "of user"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "of user"


def rom(game: str = AIRSTRIKER) -> bytes:
    return find_game(game).rom().read_bytes()


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def for_copier(content: bytes) -> bytes:
    """A ROM as the Super Magic Drive has it: of each 16 KiB first the bytes at odd places, then those at even ones."""
    blocks = [content[start : start + 16384] for start in range(0, len(content), 16384)]
    return bytes(512) + b"".join(block[1::2] + block[::2] for block in blocks)


@pytest.mark.parametrize("form", ["plain", "zip", "folder", "zip in a zip"])
def test_rom_is_recognised_in_every_form(data: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    content = rom()
    file = Path("mine") / "a"
    file.parent.mkdir()
    file.write_bytes({
        "zip": zipped(readme=b"x", rom=content),
        "zip in a zip": zipped(readme=b"x", roms=zipped(rom=content)),
    }.get(form, content))  # fmt: skip
    assert main(["import-rom", str(file.parent if form == "folder" else file)]) == 0
    assert f"{AIRSTRIKER}; train it: kartrl train --env retro/{AIRSTRIKER}" in capsys.readouterr().out
    imported = data / "retro" / AIRSTRIKER / "rom.md"
    assert imported.read_bytes() == content
    assert find_game(AIRSTRIKER).rom() == imported
    assert stat.S_IMODE(imported.stat().st_mode) == 0o600


def test_several_roms_are_imported_and_others_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read keeps no other from being imported, also in a folder."""
    pytest.importorskip("ale_py", reason="has the ROMs")
    atari_rom = rom(BREAKOUT)
    Path("roms").mkdir()
    damaged = bytearray(zipped(rom=rom()))
    damaged[damaged.index(b"PK\1\2") + 10] = 99  # compressed in an unknown way
    Path("roms", "a.zip").write_bytes(damaged)
    Path("roms", "b.bin").write_bytes(rom())
    Path("other.bin").write_bytes(b"other")
    Path("p.bin").write_bytes(bytes(512) + rom(PONG))  # with a copier's header
    Path("q.smd").write_bytes(for_copier(atari_rom))
    assert main(["import-rom", "none.bin", "roms", "other.bin", "p.bin", "q.smd"]) == 0
    said = capsys.readouterr().out
    assert find_game(BREAKOUT).rom().read_bytes() == atari_rom
    assert "none.bin: cannot read this ROM (No such file or directory)\n" in said
    assert "a.zip: cannot read this archive (" in said
    assert sorted(file.name for file in (data / "retro").iterdir()) == [AIRSTRIKER, BREAKOUT, PONG]
    assert "other.bin: not a ROM of a game that stable-retro knows (SHA-1 d0941e68" in said


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["none.sfc"], "none.sfc: cannot read"),
        (["other.bin"], "other.bin: not a ROM of a game that stable-retro knows (SHA-1 d0941e68"),
        (["cut.zip"], "cut.zip: "),
        (["empty"], "empty: no ROM that kartrl knows in it"),
        (["other.bin", "a.bin", "--states", "empty"], "--states belongs to one ROM"),
    ],
)
def test_unknown_rom_is_an_error(
    data: Path, files: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.bin").write_bytes(b"other")
    Path("cut.zip").write_bytes(b"PK\x03\x04")
    Path("empty").mkdir()
    assert main(["import-rom", *files]) == 2
    assert message in capsys.readouterr().err
    assert not data.exists()


def test_retro_games_are_listed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "retro", "*", "--json"]) == 0
    rows = {row["game"]: row for row in json.loads(capsys.readouterr().out)["retro"]}
    assert rows[AIRSTRIKER] == {"game": AIRSTRIKER, "console": "Genesis", "rom": "there", "states": ["Level1"]}
    assert rows["SuperMarioBros-Nes-v0"]["rom"] == "missing"
    assert len(rows) > 1000
    damaged = data / "retro" / AIRSTRIKER / "rom.md"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"SEGA")
    assert main(["list", "retro", "Air*"]) == 0
    assert "another revision" in capsys.readouterr().out
