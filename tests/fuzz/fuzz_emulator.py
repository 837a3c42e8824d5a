"""Fuzzes what drives a stranger's start state or movie: any file is driven, or a UserError that names it.

The input is where a state of a race or a movie of one is changed, and to what: a byte that chooses the kind, four for
the place, the rest are the new bytes. `make fuzz` runs this; libFuzzer's options go after the name of the file.
"""

import gzip
import os
import sys
import tempfile
from pathlib import Path

import atheris

assert "kartrl" not in sys.modules, "what is imported before this is not instrumented"
with atheris.instrument_imports(include=["kartrl.kart", "zipfile", "gzip"]):
    from commands import assert_clear
    from hostile import STATE

    from kartrl.console.movie import Movie, write_movie
    from kartrl.console.states import read_state
    from kartrl.errors import UserError
    from kartrl.kart.console import KartConsole
    from kartrl.kart.game_files import BUNDLED, GAMES
    from kartrl.kart.play.stage import Options, Stage, film

os.environ["KARTRL_FAULTS"] = "emulator=2"
FRAMES = 60
HONEST = read_state(STATE)


def changed(original: bytes, data: bytes) -> bytes:
    """The original with other bytes at the place that the first four choose."""
    place = int.from_bytes(data[:4], "little") % len(original)
    return original[:place] + data[4:] + original[place + len(data[4:]) :]


def drive_state(file: Path) -> None:
    console = KartConsole(GAMES / BUNDLED, isolated=True)
    try:
        console.begin(read_state(file), file)
        console.step(console.buttons(["B"]), FRAMES)
        console.race()
        console.screen()
    finally:
        console.close()


def film_movie(file: Path) -> None:
    with Stage(Options(game="bundled", replay=file)) as stage:
        film(stage, file.with_suffix(".mp4"))


def one(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / ("odd.bk2" if kind >= b"\x80" else "odd.state")
        if kind < b"\x40":
            file.write_bytes(gzip.compress(changed(HONEST, rest), 1))
        elif kind < b"\x80":
            file.write_bytes(changed(STATE.read_bytes(), rest))
        else:
            state = changed(HONEST, rest) if kind < b"\xc0" else HONEST
            write_movie(file, Movie(BUNDLED, "", state, (0,) * FRAMES))
            if kind >= b"\xc0":
                file.write_bytes(changed(file.read_bytes(), rest))
        told = file.name
        try:
            (film_movie if kind >= b"\x80" else drive_state)(file)
        except UserError as error:
            told = str(error)
            assert_clear(error)
        assert file.name in told, told


def seeds() -> Path:
    """A folder with an input of each kind, in the snapshot's registers and in the file."""
    folder = Path(tempfile.mkdtemp())
    for kind in (0x00, 0x40, 0x80, 0xC0):
        for place in (20, 50, 110, 130, 2800, 363_450):
            (folder / f"{kind}-{place}").write_bytes(bytes([kind]) + place.to_bytes(4, "little") + bytes(8))
    return folder


if __name__ == "__main__":
    del __file__  # or each emulator's process would load this file
    atheris.Setup([*sys.argv, str(seeds())], one)
    atheris.Fuzz()
