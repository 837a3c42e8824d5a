"""Checks of the configuration: it is valid, its environment works, and a run of its sizes fits into memory."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from kartrl.config import Config, read
from kartrl.errors import UserError

if TYPE_CHECKING:
    from kartrl.acting.sizes import Sizes
    from kartrl.envs.spec import EnvSpec

State = Literal["ok", "warning", "problem"]
GIGABYTE = 1e9
NEARLY = 0.98  # free memory varies by this much from one moment to the next


@dataclass
class Examined:
    """The subject of the checks, with results that later checks use."""

    files: list[str]
    overrides: list[str]
    console: Console  # shows the progress of what takes long
    config: Config = field(default_factory=Config)  # of the files and overrides, if they are valid
    spec: EnvSpec | None = None
    sizes: Sizes | None = None


def check_configuration(examined: Examined) -> tuple[State, str]:
    """Check that the configuration can be read."""
    try:
        examined.config = read(examined.files, examined.overrides)
    except UserError as error:
        return "problem", f"{error}; the lines below are for the defaults"
    return "ok", " ".join(
        ["valid:", *examined.files, *examined.overrides]
    ) if examined.files or examined.overrides else "the defaults"


def check_environment(examined: Examined) -> tuple[State, str]:
    """Check that the environment can be created, and report the network's observations."""
    from kartrl.envs.worlds import load_world
    from kartrl.sizing.inspection import inspect_env, remarks

    spec = examined.spec = inspect_env(load_world(examined.config).prepare(examined.console))
    shapes = [(part.name, " x ".join(map(str, part.shape)), part.dtype) for part in spec.observation.parts]
    seen = " and ".join(" ".join(words).lstrip() for words in shapes)
    masks = " with masks" if spec.action.masked else ""
    text = f"{spec.title}: observations {seen}, {spec.action.title}{masks}"
    found = remarks(examined.config, spec)
    return ("warning", "; ".join([text, *found])) if found else ("ok", text)


def check_sizes(examined: Examined) -> tuple[State, str]:
    """Report the sizes that `auto` chooses here."""
    if examined.spec is None:
        return "warning", "unknown until the environment starts"
    from kartrl.metrics.trackers import check_tracker
    from kartrl.nodes.session import check, find_cluster
    from kartrl.sizing.inspection import first_update
    from kartrl.sizing.resolve import decisions, resolve

    check_tracker(examined.config)
    check(examined.config)
    find_cluster(examined.config.cluster.ray)
    notes: list[str] = []
    config, sizes = examined.config, examined.sizes = resolve(examined.config, examined.spec, notes.append)
    lines = [decisions(config), *first_update(config, examined.spec, sizes), *notes]
    return "warning" if notes else "ok", "; ".join(lines)


def check_memory(examined: Examined) -> tuple[State, str]:
    """Check that the run fits into memory."""
    from kartrl.hardware.machine import free_memory

    free = free_memory()
    if examined.sizes is None:
        return "ok", f"{free / GIGABYTE:.1f} GB free"
    from kartrl.replay.replay_folder import most_on_disk
    from kartrl.sizing.memory import replay_shape, run_bytes

    assert examined.spec is not None
    shape = replay_shape(examined.config, examined.spec, examined.sizes)
    replay = shape.size() if shape is not None else 0
    need = run_bytes(examined.config, examined.spec, examined.sizes) + replay
    text = f"{free / GIGABYTE:.1f} GB free, this run needs about {need / GIGABYTE:.1f}"
    if replay:
        text += f", of which the replay {replay / GIGABYTE:.1f}"
    if shape is not None and examined.config.replay.save:
        disk = most_on_disk(shape)
        text += f", which takes up to {disk / GIGABYTE:.1f} GB of disk too"
        room = shutil.disk_usage(nearest(examined.config.run.logs_folder.absolute())).free
        if room < disk:
            return (
                "warning",
                f"{text}, where {room / GIGABYTE:.1f} are free: choose another disk with --set run.logs=FOLDER",
            )
    if free > NEARLY * need:
        return "ok", text
    less = "a smaller replay: --set replay.capacities=N" if replay > need / 2 else "fewer agents: --set system.agents=N"
    return "warning", f"{text}: close other programs, or use {less}"


def nearest(path: Path) -> Path:
    """The path, or its nearest existing ancestor."""
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))
