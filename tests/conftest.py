"""Fixtures for several test modules."""

import gc
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import hypothesis
import pytest
from filelock import FileLock

import kartrl
from kartrl.hardware.machine import cores

# On a busy machine any example may take longer than Hypothesis allows; the tests have limits of their own.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and under `nohup` SIGHUP; what tests start must not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: many tests wait for processes, which then have the cores to themselves."""
    return cores() + 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, or one of them would be left over while all other cores are idle.

    xdist gives each worker a piece of the list, so each piece begins with its share of them, whole files.
    """
    pieces: list[list[pytest.Item]] = [[] for _ in range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))]
    long = dict.fromkeys(item for item in items if item.get_closest_marker("timeout") is not None)
    for _, of_a_file in itertools.groupby(long, key=lambda item: item.path):
        min(pieces, key=len).extend(of_a_file)
    short = [item for item in items if item not in long]
    for number, piece in enumerate(pieces):
        room = len(items) // len(pieces) - len(piece) if number + 1 < len(pieces) else len(short)
        piece += short[:room]
        del short[:room]
    items[:] = itertools.chain(*pieces)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is loaded stays: who collects garbage, as stable-retro for each emulator, need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """PyTorch's threads for each core would fight those of the other tests that run at the same time."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers, in which the first to want something makes it, under a lock, for all of them."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent / "shared" if "PYTEST_XDIST_WORKER" in os.environ else folder / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def exact_products() -> Iterator[None]:
    """Without TF32, whose products have ten bits, so that a GPU's results can be compared with a CPU's."""
    import torch

    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.fixture
def make_kart() -> Iterator[Callable[..., Any]]:
    """Makes the unwrapped kart environment on the bundled game, 4 ticks per step; closed when the test ends."""
    import kartrl.envs  # noqa: F401  # registers it

    made: list[Any] = []

    def new(**settings: Any) -> Any:
        made.append(gymnasium.make("kartrl/Kart-v0", **{"game": "bundled", "frame_skip": 4, **settings}).unwrapped)
        return made[-1]

    yield new
    for env in made:
        env.close()


@pytest.fixture(scope="session")
def blocks(shared: Path) -> dict[str, Any]:
    """The bundled circuits, compiled by whichever worker is the first to want them."""
    from kartrl.kart.block import Block
    from kartrl.kart.circuits.ground import compile_circuit

    files = sorted((Path(kartrl.__file__).parent / "kart" / "circuits" / "bundled").glob("*.toml"))
    with FileLock(shared / "blocks.lock"):
        for file in files:
            if not (shared / f"{file.stem}.block").exists():
                (shared / f"{file.stem}.block").write_bytes(compile_circuit(file).pack())
    return {file.stem: Block.unpack((shared / f"{file.stem}.block").read_bytes()) for file in files}


@pytest.fixture
def screen() -> Iterator[Any]:
    """A virtual display; see `screens`."""
    from screens import open_screen

    with open_screen() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    from needs import open_browser

    with open_browser() as opened:
        yield opened


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def movie_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds on `players.CIRCUIT`."""
    from players import CIRCUIT, begun, drive, some_driving

    from kartrl.console.movie import write_movie

    file = tmp_path_factory.mktemp("movie") / "drive.bk2"
    stage, session = begun(circuits=(CIRCUIT,))
    with stage:
        write_movie(file, drive(session, some_driving(600)).movie())
    return file
