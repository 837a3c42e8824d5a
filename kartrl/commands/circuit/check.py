"""`kartrl circuit check`."""

import argparse
from contextlib import closing
from pathlib import Path

from kartrl.commands.circuit.named import GAME, circuits_of, has_emulator, in_seconds
from kartrl.config.wording import nearest
from kartrl.errors import UserError
from kartrl.kart.circuits import LAPS
from kartrl.kart.circuits.checks import find_faults
from kartrl.kart.circuits.driver import drive
from kartrl.kart.circuits.format import OWN, Circuit, CircuitError, read
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.line import line_of
from kartrl.kart.circuits.states import start_state
from kartrl.kart.console import KartConsole
from kartrl.metrics.tables import make_console, say


def run(options: argparse.Namespace) -> int:
    """Print the faults of circuits, or the lap times of the scripted driver; returns the exit status."""
    terminal, wrong = make_console(), 0
    files = {named: _described(named) for named in circuits_of(options)}
    for named, file in files.items():
        faults, praise = _examine(file, options.drive)
        for fault in faults:
            say(terminal, f"{named}: {fault}", "red")
        if not faults:
            say(terminal, f"{named}: {praise}")
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
    if not (driven and has_emulator()):
        return [], praise + ", but not driven: no emulator is installed" * driven
    times = _time_laps(circuit)
    if len(times) < LAPS:
        return [f"the scripted driver does not finish: {len(times)} of {LAPS} laps within {LAPS} minutes"], ""
    return [], f"{praise}; laps of the scripted driver: {in_seconds(times)}"


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
        near = nearest(named, names)
        raise UserError(f"{named}: neither a circuit's .toml file nor a bundled circuit; the nearest is {near}")
    return bundled


def _time_laps(circuit: Circuit) -> tuple[float, ...]:
    with closing(KartConsole(GAME)) as console:
        console.restore(start_state(console, compile_block(circuit)))
        return drive(console, LAPS)
