"""What must be the same on all machines."""

import functools
import hashlib
from pathlib import Path

import kartrl

ROOT = Path(kartrl.__file__).parent


@functools.cache
def identity() -> str:
    """This machine's kartrl: its version, and a hash of its code, which distinguishes two checkouts of one version."""
    digest = hashlib.sha256()
    for file in sorted(ROOT.rglob("*.py")):
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{kartrl.__version__} (code {digest.hexdigest()[:8]})"
