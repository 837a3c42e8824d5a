"""Files that appear whole or not at all."""

import os
from pathlib import Path


def write_whole(file: Path, data: bytes) -> None:
    """Replace `file` as a whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
