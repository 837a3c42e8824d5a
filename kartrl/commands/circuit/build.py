"""`kartrl circuit build`."""

import argparse

from kartrl.files import check_replaceable
from kartrl.kart.circuits import library
from kartrl.kart.circuits.ground import compile_block
from kartrl.metrics.video import png


def run(options: argparse.Namespace) -> int:
    """Write start states and maps; returns the exit status."""
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
