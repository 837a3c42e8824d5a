"""Saved states of a console in files, packed with gzip as stable-retro's are."""

import gzip
import zlib
from pathlib import Path

from kartrl.console.libretro import STATE_LIMIT
from kartrl.errors import UserError
from kartrl.files import write_private


def read_state(file: Path) -> bytes:
    """Read and unpack the emulator state in `file`.

    Raises:
        UserError: it cannot be read, is not complete gzip, is empty, or unpacks to more than `STATE_LIMIT` bytes.
    """
    try:
        with gzip.open(file, "rb") as stream:
            data = stream.read(STATE_LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{file}: cannot read this start state ({error})") from error
    if not data:
        raise UserError(f"{file}: the start state is empty")
    if len(data) > STATE_LIMIT:
        raise UserError(f"{file}: not a start state: it unpacks to more than {STATE_LIMIT // 2**20} MiB")
    return data


def write_state(file: Path, state: bytes) -> None:
    """Write a start state atomically, readable by its owner only.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        write_private(file, gzip.compress(state, mtime=0))
    except OSError as error:
        raise UserError(f"{file}: cannot write ({error.strerror})") from error
