"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces it when the block ends, unless by an exception.

    Whoever reads `path` sees the old file or the new one. A process that is killed inside leaves a `.*.tmp` file.

    Args:
        durable: the new file also survives a loss of power from then on: it and its folder are flushed to the disk.

    Raises:
        OSError: it cannot be written; `path` is as it was.
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
        _flush_to_disk(path.parent)  # the rename itself lasts only then


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace `path` by a file of these bytes; see `whole_file`."""
    with whole_file(path, durable=durable) as temporary:
        temporary.write_bytes(data)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
