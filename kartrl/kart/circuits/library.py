"""Start states of circuits that are not in the ROM, built once."""

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import current_process, get_context
from pathlib import Path

from kartrl.errors import UserError
from kartrl.files import explained, write_whole
from kartrl.kart.block import Block
from kartrl.kart.built_circuits import find, place
from kartrl.kart.circuits.checks import find_faults
from kartrl.kart.circuits.format import Circuit, read, to_toml
from kartrl.kart.circuits.generator import random_circuit
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.states import make_state
from kartrl.kart.levels import kind_of, random_name
from kartrl.launch import is_kartrl
from kartrl.metrics.video import png

FEW = 4  # maximum number of circuits that one process builds alone; a second one helps with more
HELPERS = 2
Progress = Callable[[str], None]
Announce = Callable[[int], None]
Task = tuple[int, str, str]


def _ignore(_: object) -> None:
    pass


def random_states(
    numbers: Sequence[int], kind: str | None = None, progress: Progress = _ignore, announce: Announce = _ignore
) -> list[Path]:
    """Start states of the random circuits with these seeds, in that order; builds those that are missing.

    Args:
        numbers: seeds.
        kind: of all of them; None: each kind in turn, by the seed.
        progress: called once with the name of each circuit when it is available.
        announce: called before any is built, with the number of those that are missing.

    Raises:
        UserError: unknown kind, or no emulator.
    """
    wanted = [(number, kind_of(number, kind)) for number in numbers]
    folder = place()
    files = [find(f"{random_name(number, which)}.state") for number, which in wanted]
    missing = []
    for file, found in zip(files, wanted, strict=True):
        if file.is_file():
            progress(file.stem)
        elif found not in missing:
            missing.append(found)
    if missing:
        announce(len(missing))
    for name in run_tasks(build_random, [(number, which, str(folder)) for number, which in missing]):
        progress(name)
    return files


def build_random(task: Task) -> str:
    """Build a random circuit (seed, kind) in a folder: .toml, map and start state. Returns its name."""
    number, kind, folder = task
    name = random_name(number, kind)
    circuit = random_circuit(number, kind)
    save(Path(folder) / f"{name}.toml", to_toml(circuit).encode())
    block = compile_block(circuit)
    save(Path(folder) / f"{name}.png", png(block.image()))
    save(Path(folder) / f"{name}.state", state_bytes(block))  # last: its presence marks the circuit as complete
    return name


def check_unedited(tasks: Sequence[Task]) -> None:
    """Check that building these random circuits would not replace a file that differs: it may have been edited.

    Raises:
        UserError: it would replace one.
    """
    for number, kind, folder in tasks:
        file = Path(folder) / f"{random_name(number, kind)}.toml"
        if file.exists() and file.read_bytes() != to_toml(random_circuit(number, kind)).encode():
            raise UserError(
                f"{file}: differs from the generated circuit; rename it, choose another -o DIR, or replace it: --force"
            )


def read_valid(file: Path) -> Circuit:
    """Read a circuit and check that it can be driven.

    Raises:
        UserError: the file is not a circuit, or it has a fault.
    """
    circuit = read(file)
    if found := find_faults(circuit):
        more = f" (and {len(found) - 1} more: kartrl circuit check)" if len(found) > 1 else ""
        raise UserError(f"{file}: {found[0]}{more}")
    return circuit


def state_of(file: Path, announce: Announce = _ignore) -> Path:
    """The start state of the circuit in a file, from the cache if the content is unchanged.

    Args:
        announce: called with 1 before it is built, if it is.

    Raises:
        UserError: the file is not a circuit that can be driven, or there is no emulator.
    """
    state = find(f"{zlib.crc32(to_toml(read(file)).encode()):08x}/{file.stem}.state")
    if not state.is_file():
        announce(1)
        save(state, state_bytes(compile_block(read_valid(file))))
    return state


def state_bytes(block: Block) -> bytes:
    """The content of the file of a block's start state."""
    return gzip.compress(make_state(block), mtime=0)


def save(file: Path, data: bytes) -> None:
    """Write a file atomically.

    Raises:
        UserError: the file cannot be written.
    """
    with explained(file, "write"):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, data)


def run_tasks(work: Callable[[Task], str], tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the result of each task, in order; two processes share the work if there are many."""
    alone = current_process().daemon or _runs_script()
    if alone or len(tasks) <= FEW or (os.cpu_count() or 1) < HELPERS:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(HELPERS, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, tasks)


def _runs_script() -> bool:
    """Whether a script of the user's is running: a new process would run it again, up to where it starts processes."""
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is None and hasattr(main, "__file__") and not is_kartrl(Path(sys.argv[0]))
