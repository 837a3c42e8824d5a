"""Actions of `kartrl circuit`."""

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, track
from rich.table import Table

from kartrl.errors import UserError
from kartrl.kart.circuit_map import circuit_block
from kartrl.kart.circuits import LAPS, draw, library
from kartrl.kart.circuits.checks import find_faults
from kartrl.kart.circuits.driver import drive, lap_times
from kartrl.kart.circuits.format import Circuit, read
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.line import line_of
from kartrl.kart.circuits.states import start_state
from kartrl.kart.retro import BUNDLED, GAMES, Console, circuits, core_file
from kartrl.metrics.video import Mp4Writer, png

GAME = GAMES / BUNDLED


def check(options: argparse.Namespace) -> int:
    terminal, wrong = Terminal(), 0
    for file in options.file:
        try:
            circuit = read(file)
            found = find_faults(circuit)
        except UserError as error:
            terminal.print(f"{error}", style="red", markup=False, soft_wrap=True)
            wrong += 1
            continue
        for fault in found:
            terminal.print(f"{file}: {fault}", style="red", markup=False, soft_wrap=True)
        good = f"{file}: good, {line_of(circuit).length:.0f} pixels a lap"
        if not found and options.drive and _has_emulator():
            times = _time_laps(circuit)
            if len(times) < LAPS:
                found = ["the scripted driver does not finish"]
                terminal.print(
                    f"{file}: {found[0]}: {len(times)} of {LAPS} laps within {LAPS} minutes",
                    style="red",
                    markup=False,
                    soft_wrap=True,
                )
            else:
                terminal.print(f"{good}; laps of the scripted driver: {_seconds(times)}", markup=False, soft_wrap=True)
        elif not found:
            terminal.print(
                good + ", but not driven: no emulator is installed" * options.drive, markup=False, soft_wrap=True
            )
        wrong += bool(found)
    return 2 if wrong else 0


def _time_laps(circuit: Circuit) -> tuple[float, ...]:
    console = Console(GAME)
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


def _read_valid(file: Path) -> Circuit:
    """Read a circuit and check that it can be driven."""
    circuit = read(file)
    if found := find_faults(circuit):
        more = f" (and {len(found) - 1} more: kartrl circuit check)" if len(found) > 1 else ""
        raise UserError(f"{file}: {found[0]}{more}")
    return circuit


def build(options: argparse.Namespace) -> int:
    sound = [(file, _read_valid(file)) for file in options.file]
    for file, circuit in sound:
        block = compile_block(circuit)
        state = options.output / f"{file.stem}.state"
        library.save_state(state, block)
        library.save(state.with_suffix(".png"), png(block.image()))
        print(f"{state}: {circuit.title}, {circuit.kind}, {block.length} pixels a lap")
    return 0


def draw_(options: argparse.Namespace) -> int:
    names = list(circuits(GAME)) if options.all else options.circuit
    if not names:
        raise UserError("no circuit given: pass a .toml, a .state or a name, or --all")
    shots = [_take_shot(name, options.points) for name in names]
    if len(shots) == 1:
        image, name = draw.join_view(shots[0].ground, shots[0].view), f"{shots[0].name}.png"
    else:
        image, name = draw.sheet(shots), "circuits.png"
    output = options.output or Path(name)
    library.save(output, png(image))
    print(output)
    return 0


def _take_shot(circuit: str, points: bool) -> draw.Shot:
    if circuit.endswith(".toml"):
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
    """Raise UserError where `circuit` is neither a file nor a bundled circuit."""
    if not circuit.endswith((".toml", ".state")) and circuit not in circuits(GAME):
        own = {file.stem: read(file).title for file in sorted(Path(__file__).with_name("bundled").glob("*.toml"))}
        names = ", ".join(f"{name} ({title.title()})" for name, title in own.items())
        raise UserError(f"no circuit {circuit!r}: pass a .toml, a .state or a bundled circuit: {names}")


def _short_name(circuit: str) -> str:
    return Path(circuit).name.removesuffix(".state").removesuffix(".toml")


def random_(options: argparse.Namespace) -> int:
    numbers = range(options.seed, options.seed + options.count)
    tasks = [(number, library.kind_of(number, options.kind), str(options.output)) for number in numbers]
    done = library.run_tasks(library.build_random, tasks)
    for _ in track(done, "Making circuits", total=len(tasks), console=Terminal(stderr=True), transient=True):
        pass
    print(f"{len(tasks)} circuits in {options.output}")
    return 0


def drive_(options: argparse.Namespace) -> int:
    for name in options.circuit:
        _check_exists(name)
    table, films = Table("circuit", "laps", "seconds"), []
    many = len(options.circuit) > 1 or (options.output is not None and options.output.suffix != ".mp4")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    terminal = Terminal(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        for name in options.circuit:
            state = str(library.state_of(Path(name))) if name.endswith(".toml") else name
            short = _short_name(name)
            task = progress.add_task(f"Driving {short}", total=options.laps)
            if options.output is None:
                times = lap_times(state, options.laps)
            else:
                films.append(options.output / f"{short}.mp4" if many else options.output)
                times = record_drive(state, options.laps, films[-1], partial(progress.update, task))
            progress.update(task, completed=options.laps)
            table.add_row(short, f"{len(times)} of {options.laps}", _seconds(times))
    Terminal().print(table)
    for film in films:
        print(film)
    return 0


def record_drive(state: str, laps: int, file: Path, progress: Callable[..., None]) -> tuple[float, ...]:
    """Record a drive as a video and return its lap times; calls `progress` with the number of laps `completed`."""

    def shoot(console: Console) -> None:
        race = console.race()
        if race["tick"] % 2 == 0:
            film.add(console.screen())
            progress(completed=race["lap"] - console.game.lap_zero + race["checkpoint"] / race["checkpoint_num"])

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with Mp4Writer(file, 30) as film:
            return lap_times(state, laps, shoot)
    except OSError as error:
        raise UserError(f"{file}: cannot write: {error.strerror or error}") from error
