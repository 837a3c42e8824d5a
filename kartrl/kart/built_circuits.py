"""Where start states lie that kartrl has built, in the user's cache folder, and which start states are trusted.

If the folder is not writable, as in a read-only container, they are built for this process only.
"""

import atexit
import os
import shutil
import tempfile
import zlib
from functools import cache
from multiprocessing import current_process
from pathlib import Path

import platformdirs

from kartrl.files import user_path
from kartrl.kart.game_files import BUNDLED, GAMES, build_id
from kartrl.kart.levels import is_generated, is_path

BUILDER = Path(__file__).with_name("circuits")  # the package that builds them


def is_foreign(folder: Path, circuit: str) -> bool:
    """Whether a start state is neither one of the bundled game's own nor one that kartrl has generated, and thus not
    trusted."""
    if folder != GAMES / BUNDLED:
        return True
    path = Path(circuit)
    return is_path(circuit) and not (is_generated(path.stem) and path.parent == _cache())


def must_isolate(folder: Path, circuit: str) -> bool:
    """Whether a start state needs an emulator in a separate process: it is foreign, and this is not a supervised
    (daemonic) process, which may crash or hang."""
    return not current_process().daemon and is_foreign(folder, circuit)


@cache
def version(folder: Path = BUILDER) -> str:
    """A hash of what generated circuits depend on: the package `circuits`, its looks, and block.py beside it."""
    code = 0
    for file in (folder.with_name("block.py"), *sorted(folder.rglob("*.py")), *sorted(folder.rglob("looks/*.toml"))):
        code = zlib.crc32(file.read_bytes(), code)
    return f"{code:08x}"


def find(name: str) -> Path:
    """The path of this file in the cache or, if it is missing, the path at which to build it."""
    kept = _cache() / name
    return kept if os.path.isfile(kept) else place() / name  # unlike Path.is_file, False in a closed folder


def place() -> Path:
    """The folder in which circuits are built: the cache, or a temporary one for this process."""
    kept = _cache()
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _temporary()
    return kept if os.access(kept, os.W_OK) else _temporary()


@cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="kartrl-circuits-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _cache() -> Path:
    root = user_path(os.environ.get("KARTRL_CACHE") or platformdirs.user_cache_dir("kartrl"))
    return root / "circuits" / _edition()


@cache
def _edition() -> str:
    """This build of the game and this version of the generator: circuits of others are not mixed with theirs."""
    return f"{build_id(GAMES / BUNDLED):08x}-{version()}"
