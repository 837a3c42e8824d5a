"""Hashes of ROMs."""

import hashlib
from pathlib import Path

INES_HEADER = 16  # bytes at the beginning of a NES ROM that its hash leaves out


def sha1(file: Path) -> str:
    """The hash of a ROM as in rom.sha, without a NES ROM's header."""
    data = file.read_bytes()
    return hash_of(data[INES_HEADER:] if file.suffix.lower() == ".nes" else data)


def hash_of(data: bytes) -> str:
    """SHA-1 as text."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
