"""`kartrl doctor`: checks whether this machine is ready for a run; each line says what to do.

Each check imports what it needs: a missing or broken library affects only its own line of the report.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kartrl import __version__
from kartrl.config import Config, read
from kartrl.errors import UserError
from kartrl.kart import KART, cartridge
from kartrl.runtime.isolation import run_isolated

if TYPE_CHECKING:
    from kartrl.envs.spec import EnvSpec
    from kartrl.runtime.sizes import Sizes

State = Literal["ok", "warning", "problem"]
COLOURS = {"ok": "green", "warning": "yellow", "problem": "bold red"}
RUN_BYTES = 1.5e9  # memory of a run besides its agents
LITTLE_DISK, TOO_LITTLE_DISK = 1e9, 2e7  # bytes: a few hours of logs, checkpoints and videos; one checkpoint
GIGABYTE = 1e9
MISSING = "missing"


class Finding(NamedTuple):
    """A line of the report."""

    state: State
    subject: str
    text: str  # the result and, if not ok, what to do


@dataclass
class Examined:
    """The subject of the checks, with results that later checks use."""

    files: list[str]
    overrides: list[str]
    config: Config = field(default_factory=Config)  # of the files and overrides, if they are valid
    spec: EnvSpec | None = None
    sizes: Sizes | None = None


def doctor(files: list[str], overrides: list[str], console: Console) -> int:
    """Print a line per check: a table in a terminal, else plain lines.

    Returns:
        0 if a run with this configuration can start, else 1.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    problems = 0
    for state, subject, text in examine(files, overrides):
        problems += state == "problem"
        table.add_row(Text(state, COLOURS[state]), subject, Text(text))
        if not console.is_terminal:
            console.print(f"{state:<8} {subject:<17} {text}", markup=False, highlight=False, soft_wrap=True)
    if console.is_terminal:
        console.print(table)
    console.print(f"Not ready: {problems} to solve." if problems else "Ready.", highlight=False)
    return int(problems > 0)


def examine(files: list[str], overrides: list[str]) -> Iterator[Finding]:
    """Run all checks; an exception in one is reported as its finding."""
    examined = Examined(files, overrides)
    for subject, check in CHECKS.items():
        try:
            state, text = check(examined)
        except UserError as error:
            state, text = "problem", str(error)
        except ImportError as error:
            state, text = "problem", f"a library is missing or broken ({error}): pip install -r requirements.lock"
        except Exception as error:
            state, text = "problem", f"check failed: {type(error).__name__}: {error}"
        yield Finding(state, subject, " ".join(text.split()))


def _python(_: Examined) -> tuple[State, str]:
    text = f"{platform.python_version()}, kartrl {__version__}, {platform.system()} on {platform.machine()}"
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return "ok", text
    return "warning", f"{text}; kartrl is tested with Python 3.11 to 3.14: make run PYTHON=python3.12"


def _configuration(examined: Examined) -> tuple[State, str]:
    try:
        examined.config = read(examined.files, examined.overrides)
    except UserError as error:
        return "problem", f"{error}; the lines below are for the defaults"
    return "ok", " ".join(
        ["valid:", *examined.files, *examined.overrides]
    ) if examined.files or examined.overrides else "the defaults"


def _torch(examined: Examined) -> tuple[State, str]:
    import torch

    from kartrl.runtime.devices import choose_device
    from kartrl.runtime.precision import multiplies_bf16

    device = choose_device(examined.config.system.device)
    name, bf16 = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU", multiplies_bf16(device)
    text = (
        f"{torch.__version__}, the network runs on {device.type} ({name}), where bf16 is {'fast' if bf16 else 'slow'}"
    )
    if examined.config.model.precision == "bf16" and not bf16:
        return "warning", f"{text}: use --set model.precision=fp32"
    if device.type == "cpu" and _nvidia_gpus():
        return "warning", f"{text}, but the machine has an NVIDIA GPU: install PyTorch's CUDA build"
    return "ok", text


def _nvidia_gpus() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:  # no driver
        return 0


def _emulator(examined: Examined) -> tuple[State, str]:
    from kartrl.kart.retro import core_file

    try:
        core = core_file()
        title = run_isolated(_drive_a_second)
    except UserError as error:
        return "problem" if examined.config.environment.id == KART else "warning", str(error)
    return "ok", f"stable-retro {importlib.metadata.version('stable-retro')}: {core.name} drives {title}"


def _drive_a_second() -> str:
    """Run the bundled ROM for a second; returns the game's title."""
    import numpy as np

    from kartrl.kart import retro

    folder = retro.GAMES / retro.BUNDLED
    console = retro.Console(folder, retro.circuits(folder)[0])
    try:
        console.step(console.buttons(["B"]), 60)
        if np.ptp(console.screen()) == 0 or console.race()["speed"] == 0:
            raise UserError(
                "the emulator runs, but the bundled game does not: reinstall kartrl, or rebuild it with `make game`"
            )
        return console.game.title
    finally:
        console.close()


def _bundled_rom(examined: Examined) -> tuple[State, str]:
    from kartrl.kart.retro import BUNDLED, GAMES, circuits

    folder = GAMES / BUNDLED
    expected = (folder / "rom.sha").read_text(encoding="ascii").strip()
    found = _sha1(folder / "rom.sfc")
    if found == expected:
        return "ok", f"SHA-1 {found}, as expected; {len(circuits(folder))} circuits"
    advice = "reinstall kartrl, or rebuild it with `make game`"
    text = f"SHA-1 {found}, expected {expected}, of {folder / 'rom.sfc'}: {advice}"
    required = examined.config.environment.id == KART and not _drives_cartridge(examined.config)
    return "problem" if required else "warning", text


def _cartridge(examined: Examined) -> tuple[State, str]:
    from kartrl.kart.retro import circuits

    folder = cartridge.folder()
    driven = _drives_cartridge(examined.config)
    found = _sha1(folder / "rom.sfc")
    if found == cartridge.SHA1:
        states = f"start states of {len(circuits(folder))} circuits"
        return "ok", f"SHA-1 {found}, as expected; {states}; used by environment.game=auto"
    if found == MISSING:
        text = f"none in {folder}; optional: import your own Super Mario Kart (US) with kartrl import-rom FILE"
        return (
            ("problem", f"none in {folder}: kartrl import-rom FILE, or --set environment.game=bundled")
            if driven
            else ("ok", text)
        )
    advice = "kartrl import-rom FILE, or --set environment.game=bundled"
    text = f"SHA-1 {found}, expected {cartridge.SHA1}, in {folder}: {advice}"
    return "problem" if driven else "warning", text


def _drives_cartridge(config: Config) -> bool:
    game = config.environment.game
    return config.environment.id == KART and (
        game == "cartridge" or (game == "auto" and (cartridge.folder() / "rom.sfc").is_file())
    )


def _sha1(file: Path) -> str:
    try:
        return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError as error:
        return f"unreadable ({error.strerror})"


def _atari(_: Examined) -> tuple[State, str]:
    if importlib.util.find_spec("ale_py") is None:
        return "ok", "ale-py is not installed; only Atari games need it: pip install kartrl[atari]"
    return "ok", f"ale-py {importlib.metadata.version('ale-py')}"


def _environment(examined: Examined) -> tuple[State, str]:
    from kartrl.envs.worlds import load_world
    from kartrl.runtime.inspection import inspect_env, remarks

    spec = examined.spec = inspect_env(load_world(examined.config).prepare())
    shape = " x ".join(map(str, spec.observation_shape))
    text = f"{spec.title}: observations {shape} {spec.observation_dtype}, {spec.action.title}"
    found = remarks(examined.config, spec)
    return ("warning", "; ".join([text, *found])) if found else ("ok", text)


def _sizes(examined: Examined) -> tuple[State, str]:
    if examined.spec is None:
        return "warning", "unknown until the environment starts"
    from kartrl.runtime.sizes import choose_sizes

    sizes = examined.sizes = choose_sizes(examined.config, examined.spec)
    return "ok", str(sizes)


def _cores(_: Examined) -> tuple[State, str]:
    from kartrl.runtime.machine import cores

    here = os.cpu_count() or 1
    return "ok", f"{cores()} of {here} available" if cores() < here else f"{here}"


def _memory(examined: Examined) -> tuple[State, str]:
    from kartrl.runtime.machine import free_memory

    free = free_memory()
    if examined.sizes is None:
        return "ok", f"{free / GIGABYTE:.1f} GB free"
    from kartrl.runtime.sizes import AGENT_BYTES, replay_shape, slab_shape

    assert examined.spec is not None
    slab = slab_shape(examined.config, examined.spec, examined.sizes).size()
    shape = replay_shape(examined.config, examined.spec)
    replay = shape.size() if shape is not None else 0
    need = RUN_BYTES + examined.sizes.agents * AGENT_BYTES + slab + replay
    text = f"{free / GIGABYTE:.1f} GB free, this run needs about {need / GIGABYTE:.1f}"
    if replay:
        text += f", of which the replay {replay / GIGABYTE:.1f}"
    return (
        ("ok", text)
        if free > need
        else ("warning", f"{text}: close other programs, or use fewer agents: --set system.agents=N")
    )


def _logs(examined: Examined) -> tuple[State, str]:
    logs = Path(examined.config.run.logs).absolute()
    there = _nearest(logs)
    if reason := _unwritable(there):
        return "problem", f"{logs}: cannot write ({reason}); choose another folder with --set run.logs=FOLDER"
    free = shutil.disk_usage(there).free
    text = f"{logs} is writable; {free / GIGABYTE:.1f} GB free"
    if free > LITTLE_DISK:
        return "ok", text
    advice = "free some space, or choose another disk with --set run.logs=FOLDER"
    return "warning" if free > TOO_LITTLE_DISK else "problem", f"{text}: {advice}"


def _data(_: Examined) -> tuple[State, str]:
    folder = cartridge.folder().absolute()
    if reason := _unwritable(_nearest(folder)):
        return (
            "warning",
            f"{folder}: cannot write ({reason}), so import-rom will fail; set KARTRL_DATA to another folder",
        )
    return "ok", f"{folder.parent} is writable, for import-rom"


def _temporary(_: Examined) -> tuple[State, str]:
    try:
        return "ok", f"{tempfile.gettempdir()} is writable"
    except FileNotFoundError:
        return (
            "problem",
            "none is writable, but processes need it for sockets: docker run --tmpfs /tmp, or set TMPDIR to a folder",
        )


def _nearest(path: Path) -> Path:
    """The path, or its nearest existing ancestor."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _unwritable(folder: Path) -> str:
    """Why no file can be created in the folder; "" if one can."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _video(_: Examined) -> tuple[State, str]:
    import numpy as np

    from kartrl.metrics.video import Mp4Writer

    try:
        with tempfile.TemporaryDirectory() as folder, Mp4Writer(Path(folder) / "test.mp4", fps=30) as video:
            for shade in range(2):
                video.add(np.full((224, 256, 3), shade, np.uint8))
    except Exception as error:  # codecs raise various types
        return "warning", f"kartrl record cannot write videos ({error}): pip install --force-reinstall av"
    return "ok", f"H.264 by PyAV {importlib.metadata.version('av')}"


CHECKS: dict[str, Callable[[Examined], tuple[State, str]]] = {
    "python": _python,
    "configuration": _configuration,
    "torch": _torch,
    "emulator": _emulator,
    "bundled ROM": _bundled_rom,
    "cartridge": _cartridge,
    "atari": _atari,
    "environment": _environment,
    "auto chooses": _sizes,
    "cores": _cores,
    "memory": _memory,
    "logs": _logs,
    "cartridge folder": _data,
    "temporary folder": _temporary,
    "video": _video,
}
