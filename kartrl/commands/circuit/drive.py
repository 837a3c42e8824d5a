"""`kartrl circuit drive`."""

import argparse
import mimetypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kartrl.commands.circuit.named import (
    check_exists,
    circuits_of,
    in_seconds,
    is_described,
    save_new,
    short_name,
    with_progress,
)
from kartrl.errors import UserError
from kartrl.files import explained, unused_file
from kartrl.kart.circuits import LAPS, library
from kartrl.kart.circuits.driver import time_laps
from kartrl.kart.console import KartConsole
from kartrl.kart.game import TICKS_PER_SECOND, VIEW_ROWS
from kartrl.kart.progress import LapTimes
from kartrl.metrics.tables import make_console
from kartrl.metrics.video import Mp4Writer, contact_sheet, gif

GIF_SECONDS, GIF_TICKS = (1, 8), 5


def run(options: argparse.Namespace) -> int:
    """Print the scripted driver's lap times, and record it; returns the exit status."""
    names = circuits_of(options)
    for name in names:
        check_exists(name)
    output: Path | None = options.output
    kind = "" if output is None or output.is_dir() else output.suffix.lower()
    if output is not None and kind == ".gif":
        return _draw_drives(names, output)
    if kind == ".mp4" and len(names) > 1:
        raise UserError(f"-o {output}: one film per circuit; name a folder, or a .gif of them side by side")
    if kind != ".mp4" and mimetypes.guess_type(f"x{kind}")[0]:
        raise UserError(f"-o {output}: the file name must end in .mp4 or .gif; or name a folder")
    table, films = Table("circuit", "laps", "seconds"), []
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    terminal = make_console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        for name in names:
            state = _state_of(name)
            short = short_name(name)
            task = progress.add_task(f"Driving {short}", total=options.laps)
            if output is None:
                times = time_laps(state, options.laps)
            else:
                wanted = output if kind == ".mp4" else output / f"{short}.mp4"
                film, times = record_drive(state, options.laps, wanted, partial(progress.update, task))
                films.append(film)
            progress.update(task, completed=options.laps)
            laps = min(options.laps, LAPS - times.before)
            table.add_row(short, f"{len(times.seconds)} of {laps}", in_seconds(times.seconds))
    make_console().print(table)
    for film in films:
        print(film)
    return 0


def _draw_drives(names: Sequence[str], file: Path) -> int:
    """Write a GIF of the views from the karts, side by side, from seconds `GIF_SECONDS` after their starts.

    A drive that ends earlier shows its last view until the others end.
    """
    first, last = (seconds * TICKS_PER_SECOND for seconds in GIF_SECONDS)
    films: list[list[np.ndarray]] = []
    for name in with_progress(names, "Driving", len(names)):
        views: list[np.ndarray] = []  # one per tick; most are the same array

        def shoot(console: KartConsole, views: list[np.ndarray] = views) -> bool:
            views.append(console.screen()[VIEW_ROWS] if len(views) % GIF_TICKS == 0 else views[-1])
            return len(views) == last

        time_laps(_state_of(name), LAPS, shoot)
        films.append(views[first::GIF_TICKS] or views[-1:])
    length = max(map(len, films))
    sheets = [contact_sheet([views[min(at, len(views) - 1)] for views in films]) for at in range(length)]
    print(save_new(file, gif(sheets, TICKS_PER_SECOND / GIF_TICKS, colours=64)))
    return 0


def _state_of(circuit: str) -> str:
    """The start state of a circuit's file; other names are returned unchanged."""
    return str(library.state_of(Path(circuit))) if is_described(circuit) else circuit


def record_drive(state: str, laps: int, wanted: Path, progress: Callable[..., None]) -> tuple[Path, LapTimes]:
    """Record a drive as a video; returns the file, which replaces no other, and the lap times.

    Args:
        progress: called with the number of laps `completed`.
    """
    before: int | None = None  # laps completed before the start

    def shoot(console: KartConsole) -> None:
        nonlocal before
        race = console.race()
        before = console.game.laps_done(race) if before is None else before
        if race["tick"] % 2 == 0:
            film.add(console.screen())
            lap = race["lap"] - console.game.lap_zero - before
            progress(completed=lap + race["checkpoint"] / race["checkpoint_num"])

    with explained(wanted, "write"):
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with unused_file(wanted) as file, Mp4Writer(file, 30) as film:
            return file, time_laps(state, laps, shoot)
