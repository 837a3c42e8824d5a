"""`kartrl circuit random`."""

import argparse

from kartrl.commands.circuit.named import with_progress
from kartrl.errors import UserError
from kartrl.kart.circuits import library
from kartrl.kart.levels import HIGHEST, kind_of


def run(options: argparse.Namespace) -> int:
    """Generate circuits; returns the exit status."""
    numbers = range(options.seed, options.seed + options.count)
    if numbers[-1] > HIGHEST:
        raise UserError(f"-n {options.count}: numbers of generated circuits end at {HIGHEST}; choose a lower --seed")
    tasks = [(number, kind_of(number, options.kind), str(options.output)) for number in numbers]
    if not options.force:
        library.check_unedited(tasks)
    for _ in with_progress(library.run_tasks(library.build_random, tasks), "Making circuits", len(tasks)):
        pass
    print(f"{len(tasks)} circuit{'s' * (len(tasks) > 1)} in {options.output}")
    return 0
