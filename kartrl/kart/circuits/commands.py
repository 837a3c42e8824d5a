"""Actions of `kartrl circuit`."""

import argparse
import difflib
import mimetypes
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, track
from rich.table import Table

from kartrl.config.levels import HIGHEST
from kartrl.errors import UserError
from kartrl.files import check_replaceable, output_file, unused_file
from kartrl.kart.circuit_map import circuit_block
from kartrl.kart.circuits import LAPS, draw, library
from kartrl.kart.circuits.checks import find_faults
from kartrl.kart.circuits.driver import drive, time_laps
from kartrl.kart.circuits.format import OWN, Circuit, CircuitError, read, title_of
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.line import line_of
from kartrl.kart.circuits.states import start_state
from kartrl.kart.console import KartConsole
from kartrl.kart.game import TICKS_PER_SECOND
from kartrl.kart.game_files import BUNDLED, GAMES, circuits, core_file
from kartrl.kart.progress import LapTimes
from kartrl.metrics.video import Mp4Writer, contact_sheet, gif, png

GAME = GAMES / BUNDLED
GIF_SECONDS, GIF_TICKS = (1, 8), 5
VIEW = slice(8, 108)  # screen rows between the black band and the map


def check(options: argparse.Namespace) -> int:
    terminal, wrong = Terminal(), 0
    files = {named: _described(named) for named in options.circuit}
    for named, file in files.items():
        faults, praise = _examine(file, options.drive)
        for fault in faults:
            terminal.print(f"{named}: {fault}", style="red", markup=False, soft_wrap=True)
        if not faults:
            terminal.print(f"{named}: {praise}", markup=False, soft_wrap=True)
        wrong += bool(faults)
    return 1 if wrong else 0


def _examine(file: Path, driven: bool) -> tuple[list[str], str]:
    """Faults of the circuit in this file; and, if there are none, the line to print."""
    try:
        circuit = read(file)
    except CircuitError as error:
        return error.faults, ""
    if faults := find_faults(circuit):
        return faults, ""
    praise = f"good, {line_of(circuit).length:.0f} pixels a lap"
    if not (driven and _has_emulator()):
        return [], praise + ", but not driven: no emulator is installed" * driven
    times = _time_laps(circuit)
    if len(times) < LAPS:
        return [f"the scripted driver does not finish: {len(times)} of {LAPS} laps within {LAPS} minutes"], ""
    return [], f"{praise}; laps of the scripted driver: {_seconds(times)}"


def _described(named: str) -> Path:
    """The .toml file of a circuit: this path itself, or the file of the bundled circuit with this name.

    Raises:
        UserError: there is neither.
    """
    if Path(named).is_file():
        return Path(named)
    bundled = OWN / f"{named}.toml"
    if not bundled.is_file():
        names = [file.stem for file in OWN.glob("*.toml")]
        near = difflib.get_close_matches(named, names, n=1, cutoff=0.0)[0]
        raise UserError(f"{named}: neither a circuit's .toml file nor a bundled circuit; the nearest is {near}")
    return bundled


def _time_laps(circuit: Circuit) -> tuple[float, ...]:
    console = KartConsole(GAME)
    try:
        console.restore(start_state(console, compile_block(circuit)))
        return drive(console, LAPS)
    finally:
        console.close()


def _seconds(times: Iterable[float]) -> str:
    return ", ".join(f"{seconds:.1f}" for seconds in times) + " s"


def _has_emulator() -> bool:
    try:
        core_file()
    except UserError:
        return False
    return True


def build(options: argparse.Namespace) -> int:
    sound = [(file, library.read_valid(file)) for file in options.file]
    for file, circuit in sound:
        block = compile_block(circuit)
        state = options.output / f"{file.stem}.state"
        files = {state: library.state_bytes(block), state.with_suffix(".png"): png(block.image())}
        check_replaceable(files, options.force)
        for name, data in files.items():
            library.save(name, data)
        print(f"{state}: {circuit.title}, {circuit.kind}, {block.length} pixels a lap")
    return 0


def draw_(options: argparse.Namespace) -> int:
    if options.all and options.circuit:
        raise UserError("give circuits or --all, not both")
    names = list(circuits(GAME)) if options.all else options.circuit
    if not names:
        raise UserError("no circuit given: pass a .toml, a .state or a name, or --all")
    output = output_file(options.output, _short_name(names[0]) if len(names) == 1 else "circuits", ".png")
    shots = [_take_shot(name, options.points) for name in names]
    image = draw.join_view(shots[0].ground, shots[0].view) if len(shots) == 1 else draw.sheet(shots)
    print(_save_new(output, png(image)))
    return 0


def _save_new(wanted: Path, data: bytes) -> Path:
    """Write a file in its folder, which is created, without replacing any other; returns the file."""
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with unused_file(wanted) as file:
            library.save(file, data)
            return file
    except OSError as error:
        raise UserError(f"{wanted}: cannot write: {error.strerror or error}") from error


def _take_shot(circuit: str, points: bool) -> draw.Shot:
    if _is_described(circuit):
        described = read(Path(circuit))
        block, wrong = compile_block(described), find_faults(described)
        for fault in wrong:  # still draw: the map helps to locate the fault
            print(f"{circuit}: {fault}", file=sys.stderr)
        ground = draw.mark_line(block.image(), described) if points else block.image()
        return draw.Shot(
            Path(circuit).stem, block.title, ground, None if wrong or not _has_emulator() else draw.view(block)
        )
    _check_exists(circuit)
    if points:
        raise UserError(f"{circuit}: --points needs a .toml, other files have no control points")
    found = circuit_block(GAME, circuit)
    assert found is not None  # only cartridges have no block
    return draw.Shot(_short_name(circuit), found.title, found.image(), draw.view(circuit))


def _check_exists(circuit: str) -> None:
    """Raise UserError if `circuit` is neither a file nor a bundled circuit."""
    if Path(circuit).suffix.lower() not in (".toml", ".state") and circuit not in circuits(GAME):
        names = ", ".join(f"{file.stem} ({title_of(file.stem)})" for file in sorted(OWN.glob("*.toml")))
        raise UserError(f"no circuit {circuit!r}: pass a .toml, a .state or a bundled circuit: {names}")


def _short_name(circuit: str) -> str:
    path = Path(circuit)
    return path.stem if path.suffix.lower() in (".toml", ".state") else circuit


def _is_described(circuit: str) -> bool:
    return Path(circuit).suffix.lower() == ".toml"


def random_(options: argparse.Namespace) -> int:
    numbers = range(options.seed, options.seed + options.count)
    if numbers[-1] > HIGHEST:
        raise UserError(f"-n {options.count}: numbers of generated circuits end at {HIGHEST}; choose a lower --seed")
    tasks = [(number, library.kind_of(number, options.kind), str(options.output)) for number in numbers]
    if not options.force:
        library.check_unedited(tasks)
    for _ in _shown(library.run_tasks(library.build_random, tasks), "Making circuits", len(tasks)):
        pass
    print(f"{len(tasks)} circuit{'s' * (len(tasks) > 1)} in {options.output}")
    return 0


def _shown(items: Iterable[str], title: str, total: int) -> Iterable[str]:
    """The items, with a progress bar in a terminal."""
    terminal = Terminal(stderr=True)
    return track(items, title, total, console=terminal, transient=True, disable=not terminal.is_terminal)


def drive_(options: argparse.Namespace) -> int:
    for name in options.circuit:
        _check_exists(name)
    output: Path | None = options.output
    kind = "" if output is None or output.is_dir() else output.suffix.lower()
    if output is not None and kind == ".gif":
        return _draw_drives(options.circuit, output)
    if kind == ".mp4" and len(options.circuit) > 1:
        raise UserError(f"-o {output}: one film per circuit; name a folder, or a .gif of them side by side")
    if kind != ".mp4" and mimetypes.guess_type(f"x{kind}")[0]:
        raise UserError(f"-o {output}: the file name must end in .mp4 or .gif; or name a folder")
    table, films = Table("circuit", "laps", "seconds"), []
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    terminal = Terminal(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        for name in options.circuit:
            state = _state_of(name)
            short = _short_name(name)
            task = progress.add_task(f"Driving {short}", total=options.laps)
            if output is None:
                times = time_laps(state, options.laps)
            else:
                wanted = output if kind == ".mp4" else output / f"{short}.mp4"
                film, times = record_drive(state, options.laps, wanted, partial(progress.update, task))
                films.append(film)
            progress.update(task, completed=options.laps)
            laps = min(options.laps, LAPS - times.before)
            table.add_row(short, f"{len(times.seconds)} of {laps}", _seconds(times.seconds))
    Terminal().print(table)
    for film in films:
        print(film)
    return 0


def _draw_drives(names: Sequence[str], file: Path) -> int:
    """Write a GIF of the views from the karts, side by side, from seconds `GIF_SECONDS` after their starts.

    A drive that ends earlier shows its last view until the others end.
    """
    first, last = (seconds * TICKS_PER_SECOND for seconds in GIF_SECONDS)
    films: list[list[np.ndarray]] = []
    for name in _shown(names, "Driving", len(names)):
        views: list[np.ndarray] = []  # one per tick; most are the same array

        def shoot(console: KartConsole, views: list[np.ndarray] = views) -> bool:
            views.append(console.screen()[VIEW] if len(views) % GIF_TICKS == 0 else views[-1])
            return len(views) == last

        time_laps(_state_of(name), LAPS, shoot)
        films.append(views[first::GIF_TICKS] or views[-1:])
    length = max(map(len, films))
    sheets = [contact_sheet([views[min(at, len(views) - 1)] for views in films]) for at in range(length)]
    print(_save_new(file, gif(sheets, TICKS_PER_SECOND / GIF_TICKS, colours=64)))
    return 0


def _state_of(circuit: str) -> str:
    """The start state of a circuit's file; other names are returned unchanged."""
    return str(library.state_of(Path(circuit))) if _is_described(circuit) else circuit


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

    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with unused_file(wanted) as file, Mp4Writer(file, 30) as film:
            return file, time_laps(state, laps, shoot)
    except OSError as error:
        raise UserError(f"{wanted}: cannot write: {error.strerror or error}") from error
