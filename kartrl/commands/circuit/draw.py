"""`kartrl circuit draw`."""

import argparse
import sys
from pathlib import Path

from kartrl.commands.circuit.named import (
    GAME,
    check_exists,
    circuits_of,
    has_emulator,
    is_described,
    save_new,
    short_name,
)
from kartrl.errors import UserError
from kartrl.files import output_file
from kartrl.kart.circuits import draw
from kartrl.kart.circuits.checks import find_faults
from kartrl.kart.circuits.format import read
from kartrl.kart.circuits.ground import compile_block
from kartrl.kart.circuits.states import circuit_block
from kartrl.kart.game_files import circuits
from kartrl.metrics.video import png


def run(options: argparse.Namespace) -> int:
    """Draw one circuit, or several on one sheet; returns the exit status."""
    if options.all and options.circuit:
        raise UserError("give circuits or --all, not both")
    names = list(circuits(GAME)) if options.all else circuits_of(options)
    output = output_file(options.output, short_name(names[0]) if len(names) == 1 else "circuits", ".png")
    shots = [_take_shot(name, options.points) for name in names]
    image = draw.join_view(shots[0].ground, shots[0].view) if len(shots) == 1 else draw.sheet(shots)
    print(save_new(output, png(image)))
    return 0


def _take_shot(circuit: str, points: bool) -> draw.Shot:
    if is_described(circuit):
        described = read(Path(circuit))
        block, wrong = compile_block(described), find_faults(described)
        for fault in wrong:  # still draw: the map helps to locate the fault
            print(f"{circuit}: {fault}", file=sys.stderr)
        ground = draw.mark_line(block.image(), described) if points else block.image()
        return draw.Shot(
            Path(circuit).stem, block.title, ground, None if wrong or not has_emulator() else draw.view(block)
        )
    check_exists(circuit)
    if points:
        raise UserError(f"{circuit}: --points needs a .toml, other files have no control points")
    found = circuit_block(GAME, circuit)
    assert found is not None  # only cartridges have no block
    return draw.Shot(short_name(circuit), found.title, found.image(), draw.view(circuit))
