"""Lap times of policies relative to the scripted driver's, by circuit.

    python benchmarks/lap_ratio.py all-2 all-3 -s '*' -s random:1000-1019 --episodes 3

For each policy and circuit: the races finished, and the median of the completed laps relative to the median of the
scripted driver's five laps, as docs/generalisation/protocol.md defines them; at the end, all races finished and the
median over circuits. Policies are greedy.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from kartrl.errors import UserError
from kartrl.kart.generalisation.driving import GAME, measure, reference_laps
from kartrl.kart.generalisation.results import circuit_measures
from kartrl.kart.levels import circuit_name
from kartrl.kart.selection import circuits_of
from kartrl.metrics.tables import make_console
from kartrl.options import positive
from kartrl.run.folders import find_checkpoint


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="+", help="runs (a name, or a folder) or checkpoints")
    parser.add_argument(
        "-s", "--circuits", action="append", help="as in [levels], repeatable (default: the game's own)"
    )
    parser.add_argument("--episodes", type=positive, default=3, help="races per circuit (default 3)")
    options = parser.parse_args()
    console = make_console()
    try:
        paths = [find_checkpoint(policy) for policy in options.policies]
        circuits = circuits_of(options.circuits or ["*"], GAME, console)
    except UserError as error:
        parser.error(str(error))
    with (
        Progress(console=console, disable=not console.is_terminal) as progress,
        tempfile.TemporaryDirectory() as folder,
    ):
        task = progress.add_task("", total=len(circuits) * len(paths))

        def advance() -> None:
            progress.advance(task)

        reference = reference_laps(Path(folder) / "reference.json", circuits)
        driven = {path: measure(path, {"": circuits}, options.episodes, advance) for path in paths}
    for path, measured in driven.items():
        print(f"\n{path}")
        ratios, races = [], []
        for name in map(circuit_name, circuits):
            episodes = measured[name]["episodes"]
            ratio = circuit_measures(episodes, reference[name])["lap_time"]
            finished = [episode["finished"] for episode in episodes]
            races += finished
            ratios += [ratio] if ratio is not None else []
            print(f"  {name:24} {sum(finished)} of {len(finished)}  {'-' if ratio is None else f'{ratio:.3f}'}")
        middle = f"median lap {median(ratios):.3f} of the scripted driver's" if ratios else "no lap"
        print(f"  {sum(races)} of {len(races)} races finished; {middle}, on {len(ratios)} of {len(circuits)} circuits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
