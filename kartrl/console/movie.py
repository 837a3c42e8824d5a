"""Movies: the initial state and the buttons of each frame, as .bk2 files compatible with stable-retro.

A .bk2 is a zip of three files. `Input Log.txt` has a line for each frame with one character for each button, `Core.bin`
is the state before the first frame, `Header.txt` names the game. As in stable-retro's own files, no button is held in
the first frame: its environment runs one frame on each reset.
"""

import contextlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kartrl.console.libretro import BUTTONS, STATE_LIMIT
from kartrl.console.states import HASH
from kartrl.errors import UserError, brief
from kartrl.files import explained, write_whole

LOG, HEADER, CORE = "Input Log.txt", "Header.txt", "Core.bin"
LETTERS = {"L": "l", "R": "r", "SELECT": "s"}  # of buttons; of others it is the first letter of their names
LIMITS = {LOG: 32 * 1024 * 1024, HEADER: 64 * 1024, CORE: STATE_LIMIT}  # maximum bytes of each part, unpacked
LONGEST = 1_000_000  # maximum frames of a movie: more than four hours


class Movie(NamedTuple):
    """A drive that can be replayed exactly."""

    game: str  # name of its folder
    circuit: str  # "" if unknown
    state: bytes  # of the console before the first frame
    inputs: tuple[int, ...]  # the buttons held in each frame: bit i for button i of the joypad
    rom: str = ""  # SHA-1 of its ROM; "" if unknown


def write_movie(file: Path, movie: Movie, buttons: Sequence[str | None] = BUTTONS, platform: str = "SNES") -> None:
    """Write a .bk2 atomically.

    Args:
        buttons: the joypad's, by bit.
        platform: the console's short name.

    Raises:
        UserError: the file cannot be written.
    """
    places = _places(buttons)
    names = (f"P1 {name if len(name) == 1 else name.capitalize()}|" for name in reversed(places))
    lines = ["[Input]", "".join(names), *(_line(held, places) for held in movie.inputs), "[/Input]"]
    header = {
        "MovieVersion": "Retro", "Author": "kartrl", "emuVersion": "?", "Platform": platform, "GameName": movie.game,
        "SHA1": movie.rom or "?", "Core": "?", "rerecordCount": "1", "Circuit": movie.circuit,
    }  # fmt: skip
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(LOG, "\n".join(lines))
        archive.writestr(HEADER, "".join(f"{key} {value}\n" for key, value in header.items() if value))
        archive.writestr(CORE, movie.state)
    with explained(file, "write", "choose another folder"):
        write_whole(file, packed.getvalue())


def read_movie(file: Path, buttons: Sequence[str | None] = BUTTONS) -> Movie:
    """Read a .bk2 of a single player.

    Args:
        buttons: the joypad's, by bit.

    Raises:
        UserError: the file cannot be read, or is not such a movie.
    """
    with _naming(file), zipfile.ZipFile(file) as archive:
        log, header, core = (_part(archive, name) for name in (LOG, HEADER, CORE))
        inputs = _inputs(log.decode().splitlines(), _places(buttons))
        game, circuit, rom = _names(header)
    if not inputs:
        raise UserError(f"{file}: the movie has no frames")
    return Movie(game, circuit, core, inputs, rom)


def read_names(file: Path) -> tuple[str, str]:
    """Of a .bk2, `Movie.game` and `Movie.circuit`.

    Raises:
        UserError: see `read_movie`.
    """
    with _naming(file), zipfile.ZipFile(file) as archive:
        return _names(_part(archive, HEADER))[:2]


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Context manager: what goes wrong when a movie is read is a UserError that names it."""
    try:
        yield
    except (
        OSError,
        EOFError,
        KeyError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else brief(error)
        raise UserError(f"{file}: cannot read this movie ({reason})") from error


def _names(header: bytes) -> tuple[str, str, str]:
    """Game, circuit, and the ROM's hash."""
    fields = dict(line.partition(" ")[::2] for line in header.decode().splitlines())
    game, circuit, rom = (fields.get(name, "").strip() for name in ("GameName", "Circuit", "SHA1"))
    return game, circuit, rom.lower() if HASH.fullmatch(rom.lower()) else ""


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as stream:
        data = stream.read(LIMITS[name] + 1)
    if len(data) > LIMITS[name]:
        raise ValueError(f"{name} unpacks to more than {LIMITS[name] // 1024} KiB")
    return data


def _places(buttons: Sequence[str | None]) -> dict[str, int]:
    """The bits of the buttons that movies have, by name; stable-retro's have no reset."""
    return {name: bit for bit, name in enumerate(buttons) if name not in (None, "RESET")}


def _line(held: int, places: Mapping[str, int]) -> str:
    letters = (LETTERS.get(name, name[0]) if held >> bit & 1 else "." for name, bit in places.items())
    return f"|..|{''.join(letters)[::-1]}|"


def _inputs(lines: Sequence[str], places: Mapping[str, int]) -> tuple[int, ...]:
    """Parse the buttons of each frame."""
    frames = [line for line in lines if line.startswith("|")]
    if len(frames) > LONGEST:
        raise ValueError(f"more than {LONGEST:,} frames")
    inputs = []
    for line in frames:
        _, system, held, *rest = line.split("|")
        if len(held) != len(places) or rest != [""]:
            raise ValueError("not the buttons of a single joypad of this console")
        if set(system) - {"."}:
            raise ValueError("it resets the console or turns it off")
        bits = zip(places.values(), reversed(held), strict=True)
        inputs.append(sum(1 << bit for bit, letter in bits if letter not in ". "))
    return tuple(inputs)
