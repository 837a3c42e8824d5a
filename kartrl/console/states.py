"""Saved states of a console in files, packed with gzip as stable-retro's are.

Most cores' states do not tell the game: the name within the gzip header, which others ignore, is the ROM's hash.
"""

import gzip
import io
import re
import zlib
from pathlib import Path

from kartrl.console.libretro import STATE_LIMIT
from kartrl.errors import UserError
from kartrl.files import explained, write_private

HASH = re.compile("[0-9a-f]{40}")
NAMED, EXTRA = 8, 4  # flags of a gzip header, at its fourth byte
GZIP_HEADER = 10  # bytes, before what the flags tell of
HEADER = 512  # bytes in which a name is looked for


def read_state(file: Path, rom: str = "") -> bytes:
    """Read and unpack the emulator state in `file`.

    Args:
        rom: hash of the game's ROM, of which the state must be if it names one; "": of any.

    Raises:
        UserError: it cannot be read, is not complete gzip, is empty, unpacks to more than `STATE_LIMIT` bytes, or is of
            another ROM.
    """
    try:
        with file.open("rb") as packed:
            saved_in = _name(packed.read(HEADER))
            packed.seek(0)
            with gzip.open(packed) as stream:
                data = stream.read(STATE_LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{file}: cannot read this start state ({error})") from error
    if not data:
        raise UserError(f"{file}: the start state is empty")
    if len(data) > STATE_LIMIT:
        raise UserError(f"{file}: not a start state: it unpacks to more than {STATE_LIMIT // 2**20} MiB")
    if rom and HASH.fullmatch(saved_in) and saved_in != rom:
        raise UserError(
            f"{file}: saved in another game, or in another revision of its ROM (SHA-1 {saved_in}, not {rom}); choose "
            "another start state, or save it again"
        )
    return data


def _name(header: bytes) -> str:
    """The name within a gzip header; "" if there is none."""
    flags = header[3] if len(header) > GZIP_HEADER else 0
    start = GZIP_HEADER
    if flags & EXTRA:
        start += 2 + int.from_bytes(header[start : start + 2], "little")
    return header[start:].partition(b"\0")[0].decode("latin-1") if flags & NAMED else ""


def write_state(file: Path, state: bytes, rom: str = "") -> None:
    """Write a start state atomically, readable by its owner only.

    Args:
        rom: hash of the game's ROM; "": the file names none.

    Raises:
        UserError: the file cannot be written.
    """
    packed = io.BytesIO()
    with gzip.GzipFile(rom, "wb", fileobj=packed, mtime=0) as stream:
        stream.write(state)
    with explained(file, "write"):
        write_private(file, packed.getvalue())
