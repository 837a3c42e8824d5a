"""Files that users write, and files that are written atomically."""

import codecs
import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


def read_text(path: Path) -> str:
    """The text of a user's file: UTF-8, or what its byte-order mark says, as editors on Windows write.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it has another encoding.
    """
    data = path.read_bytes()
    text = data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextlib.contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which replaces it when the block ends without an exception.

    Readers of `path` see the old file or the new one. A process killed inside the block leaves a `.*.tmp` file.

    Args:
        durable: flush the file and its folder to the disk, so that the new file survives a power failure.

    Raises:
        OSError: it cannot be written; `path` is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if durable:
            _flush_to_disk(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _flush_to_disk(path.parent)  # only this makes the rename durable


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Atomically replace `path` with a file of these bytes; see `whole_file`."""
    with whole_file(path, durable=durable) as temporary:
        temporary.write_bytes(data)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
