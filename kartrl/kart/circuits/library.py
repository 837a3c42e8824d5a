"""Start states of circuits that are not in the ROM, built once and kept in the user's cache folder."""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import current_process, get_context
from pathlib import Path

import platformdirs

from kartrl.config.levels import KINDS, random_name
from kartrl.errors import UserError
from kartrl.files import write_whole
from kartrl.kart.block import Block
from kartrl.kart.circuits.format import read, written
from kartrl.kart.circuits.generator import random_circuit
from kartrl.kart.circuits.ground import compiled
from kartrl.kart.circuits.states import make_state
from kartrl.kart.retro import BUNDLED, GAMES, build_id
from kartrl.metrics.video import png

FEW = 4  # that are built in this process; for more, another one helps
HELPERS = 2
Progress = Callable[[str], None]
Task = tuple[int, str, str]


def _silent(_: str) -> None:
    pass


def random_states(numbers: Sequence[int], kind: str | None = None, progress: Progress = _silent) -> list[Path]:
    """Start states of the random circuits with these numbers, in that order; those missing are built first.

    Args:
        numbers: each is a circuit's seed.
        kind: of all of them; None: one kind after the other, by the number.
        progress: called once with each one's name, when it is there.

    Raises:
        UserError: there is no such kind, no emulator, or the cache cannot be written.
    """
    wanted = [(number, kind_of(number, kind)) for number in numbers]
    files = [_cache() / f"{random_name(number, which)}.state" for number, which in wanted]
    missing = []
    for file, found in zip(files, wanted, strict=True):
        if file.is_file():
            progress(file.stem)
        elif found not in missing:
            missing.append(found)
    for name in shared(build_random, [(number, which, str(_cache())) for number, which in missing]):
        progress(name)
    return files


def kind_of(number: int, kind: str | None) -> str:
    """The kind of a random circuit: the one asked for or, without, the turn of the number.

    Raises:
        UserError: there is no such kind.
    """
    if kind is not None and kind not in KINDS:
        raise UserError(f"there is no kind {kind!r} of circuits; there are: {', '.join(KINDS)}")
    return kind or KINDS[number % len(KINDS)]


def build_random(task: Task) -> str:
    """Build a random circuit (number, kind) in a folder: its text, a map and the start state. Returns its name."""
    number, kind, folder = task
    name = random_name(number, kind)
    circuit = random_circuit(number, kind)
    save(Path(folder) / f"{name}.toml", written(circuit).encode())
    block = compiled(circuit)
    save(Path(folder) / f"{name}.png", png(block.picture()))
    save_state(Path(folder) / f"{name}.state", block)  # last: where it is, all of it is
    return name


def state_of(file: Path) -> Path:
    """The start state of the circuit in a file, from the cache if it holds that very content.

    Raises:
        UserError: the file is not a circuit, there is no emulator, or the cache cannot be written.
    """
    circuit = read(file)
    state = _cache() / f"{zlib.crc32(written(circuit).encode()):08x}" / f"{file.stem}.state"
    if not state.is_file():
        save_state(state, compiled(circuit))
    return state


def save_state(file: Path, block: Block) -> None:
    """Make and write the start state of a block."""
    save(file, gzip.compress(make_state(block), mtime=0))


def save(file: Path, data: bytes) -> None:
    """Write a file, which appears at once and whole.

    Raises:
        UserError: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, data)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror or error}") from error


def shared(work: Callable[[Task], str], tasks: Sequence[Task]) -> Iterator[str]:
    """The results of the work on each task, in order; two processes share many."""
    if len(tasks) <= FEW or (os.cpu_count() or 1) < HELPERS or current_process().daemon:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(HELPERS, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, tasks)


@cache
def _version() -> str:
    """Changes with the code of this package and of the block, which decides what a circuit is."""
    code, folder = 0, Path(__file__).parent
    for file in (folder.with_name("block.py"), *sorted(folder.glob("*.py"))):
        code = zlib.crc32(file.read_bytes(), code)
    return f"{code:08x}"


def _cache() -> Path:
    """The folder for this build of the game and this version of the generator."""
    root = os.environ.get("KARTRL_CACHE") or platformdirs.user_cache_dir("kartrl")
    build = build_id(GAMES / BUNDLED)
    return Path(root) / "circuits" / f"{build:08x}-{_version()}"
