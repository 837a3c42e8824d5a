"""What `kartrl circuit` does."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console as Terminal
from rich.progress import track
from rich.table import Table

from kartrl.circuits import draw, library
from kartrl.circuits.arguments import LAPS
from kartrl.circuits.checks import faults
from kartrl.circuits.driver import drive, lap_times
from kartrl.circuits.format import Circuit, read
from kartrl.circuits.ground import compiled
from kartrl.circuits.states import start_state
from kartrl.envs.circuit_map import circuit_block
from kartrl.envs.retro import BUNDLED, GAMES, Console, circuits, core_file
from kartrl.errors import UserError
from kartrl.video import Mp4Writer, png

GAME = GAMES / BUNDLED


def check(options: argparse.Namespace) -> int:
    terminal, wrong = Terminal(), 0
    for file in options.file:
        try:
            circuit = read(file)
            found = faults(circuit)
        except UserError as error:
            terminal.print(f"{error}", style="red", markup=False, soft_wrap=True)
            wrong += 1
            continue
        for fault in found:
            terminal.print(f"{file}: {fault}", style="red", markup=False, soft_wrap=True)
        if not found and options.drive and _has_emulator():
            times = _driven(circuit)
            if len(times) < LAPS:
                found = ["the scripted driver does not finish"]
                terminal.print(
                    f"{file}: {found[0]}: {len(times)} of {LAPS} laps in {LAPS} minutes", style="red", markup=False, soft_wrap=True
                )
            else:
                terminal.print(f"{file}: good; laps of the scripted driver: {_seconds(times)}", markup=False, soft_wrap=True)
        elif not found:
            terminal.print(f"{file}: good" + ", but not driven: there is no emulator" * options.drive, markup=False, soft_wrap=True)
        wrong += bool(found)
    return 2 if wrong else 0


def _driven(circuit: Circuit) -> tuple[float, ...]:
    console = Console(GAME)
    try:
        console.restore(start_state(console, compiled(circuit)))
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


def _sound(file: Path) -> Circuit:
    """The circuit in a file, which can be driven."""
    circuit = read(file)
    if found := faults(circuit):
        raise UserError(f"{file}: {found[0]} (kartrl circuit check tells more)")
    return circuit


def build(options: argparse.Namespace) -> int:
    sound = [(file, _sound(file)) for file in options.file]
    for file, circuit in sound:
        block = compiled(circuit)
        state = options.output / f"{file.stem}.state"
        library.save_state(state, block)
        library.save(state.with_suffix(".png"), png(block.picture()))
        print(f"{state}: {circuit.title}, {circuit.kind}, {block.length} pixels a lap")
    return 0


def draw_(options: argparse.Namespace) -> int:
    names = list(circuits(GAME)) if options.all else options.circuit
    if not names:
        raise UserError("which circuit? Give a .toml, a .state or a name, or --all")
    shots = [_shot(name) for name in names]
    if len(shots) == 1:
        picture, name = draw.beside(shots[0].block, shots[0].view), f"{shots[0].name}.png"
    else:
        picture, name = draw.sheet(shots), "circuits.png"
    output = options.output or Path(name)
    library.save(output, png(picture))
    print(output)
    return 0


def _shot(circuit: str) -> draw.Shot:
    if circuit.endswith(".toml"):
        described = read(Path(circuit))
        block, wrong = compiled(described), faults(described)
        for fault in wrong:  # the picture helps to find the place
            print(f"{circuit}: {fault}", file=sys.stderr)
        return draw.Shot(Path(circuit).stem, block, None if wrong or not _has_emulator() else draw.view(block))
    found = circuit_block(GAME, circuit)
    assert found is not None  # only a cartridge has none
    return draw.Shot(Path(circuit).name.removesuffix(".state"), found, draw.view(circuit))


def random_(options: argparse.Namespace) -> int:
    numbers = range(options.seed, options.seed + options.count)
    tasks = [(number, library.kind_of(number, options.kind), str(options.output)) for number in numbers]
    done = library.shared(library.build_random, tasks)
    for _ in track(done, "Making circuits", total=len(tasks), console=Terminal(stderr=True), transient=True):
        pass
    print(f"{len(tasks)} circuits in {options.output}")
    return 0


def drive_(options: argparse.Namespace) -> int:
    table = Table("circuit", "laps", "seconds")
    many = len(options.circuit) > 1 or (options.output is not None and options.output.suffix != ".mp4")
    for name in options.circuit:
        state = str(library.state_of(Path(name))) if name.endswith(".toml") else name
        short = Path(name).name.removesuffix(".state").removesuffix(".toml")
        if options.output is None:
            times = lap_times(state, options.laps)
        else:
            if many:
                options.output.mkdir(parents=True, exist_ok=True)
            with Mp4Writer(options.output / f"{short}.mp4" if many else options.output, 30) as film:

                def shoot(console: Console, film: Mp4Writer = film) -> None:
                    if console.race()["tick"] % 2 == 0:
                        film.add(console.screen())

                times = lap_times(state, options.laps, shoot)
        table.add_row(short, f"{len(times)} of {options.laps}", _seconds(times))
    Terminal().print(table)
    return 0
