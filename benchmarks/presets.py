"""Whether bundled configurations still learn what is said of them: each is trained with several seeds, then driven.

    make presets                         before a release, on a quiet machine: three seeds of each, half an hour
    python benchmarks/presets.py cartpole pendulum --seeds 1 2 3 4 5 6 --folder /tmp/presets

`greedy` in kartrl/config/presets/figures.toml is what each seed must reach: the least mean of this measure, on each
level, of the last checkpoint with greedy actions. Runs are trained without evaluations, seed by seed; those that have
ended are only driven again, interrupted ones are resumed. Exit status 1: a seed failed, or is below.
"""

import argparse
import itertools
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from kartrl.comparison.experiment import Cell, resumable, train_all
from kartrl.config import read
from kartrl.envs.worlds import load_world
from kartrl.library.evaluation import evaluate
from kartrl.metrics.tables import make_console, say
from kartrl.sizing.outlook import DEFAULT, figures


class Bar(NamedTuple):
    """What each seed of a bundled configuration must reach."""

    measure: str
    least: float


class Driven(NamedTuple):
    """What a seed's last checkpoint reached."""

    mean: float  # of the measure, on its worst level
    lowest: float  # return of all episodes


def bars() -> dict[str, Bar]:
    """All of them, by the configuration's name."""
    return {name: Bar(*bar) for name, known in figures().items() for bar in known.get("greedy", {}).items()}


def cell_of(preset: str, seed: int, folder: Path) -> Cell:
    """The run of a preset with this seed."""
    name = f"{preset}-{seed}"
    own = (f"run.logs={folder}", f"run.name={name}", f"run.seed={seed}", "evaluation.minutes=0")
    return Cell(preset, read([] if preset == DEFAULT else [preset], own), folder / name)


def drive(cell: Cell, path: Path, bar: Bar, episodes: int) -> Driven:
    """What this checkpoint reaches with greedy actions in so many episodes, the same number on each level."""
    world = load_world(load_world(cell.config).prepare())
    levels = max(1, len(world.levels("train") + world.levels("test")))
    driven = [result.episodes for result in evaluate(path, episodes=-(-episodes // levels))]
    mean = min(world.measure(level)[bar.measure] for level in driven)
    return Driven(mean, min(episode.episodic_return for level in driven for episode in level))


def below(bar: Bar, seeds: dict[int, Driven]) -> list[int]:
    """The seeds that do not reach it."""
    return [seed for seed, driven in seeds.items() if driven.mean < bar.least]


def row(preset: str, bar: Bar, seeds: dict[int, Driven]) -> str:
    """Of the table, in Markdown."""
    missed = ", ".join(map(str, below(bar, seeds)))
    means = ", ".join(f"{driven.mean:.4g}" for driven in seeds.values())
    lowest = min(driven.lowest for driven in seeds.values())
    verdict = f"**seed {missed} below**" if missed else "each seed"
    return f"| {preset} | {bar.measure} {bar.least:g} | {verdict} | {means} | {lowest:.4g} |"


def main() -> int:
    known = bars()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=f"default all: {', '.join(known)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--episodes", type=int, default=100, help="on all levels together (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("logs/presets"), help="of the runs (default %(default)s)")
    options = parser.parse_args()
    if unknown := [name for name in options.presets if name not in known]:
        parser.error(f"{', '.join(unknown)}: figures.toml has no `greedy` of it, but of {', '.join(known)}")
    console, driven = make_console(), defaultdict[str, dict[int, Driven]](dict)
    grid = itertools.product(options.seeds, options.presets or known)
    cells = [cell_of(name, seed, options.folder.resolve()) for seed, name in grid]

    def then(cell: Cell, path: Path) -> None:
        preset, seed = cell.algorithm, cell.config.run.seed
        driven[preset][seed] = drive(cell, path, known[preset], options.episodes)
        say(console, f"{preset}, seed {seed}: {driven[preset][seed].mean:.4g}")

    with resumable(options.folder, console):
        failed = train_all(cells, console, then)
    say(console, "\n| preset | must reach | reached by | each seed's mean | lowest return |\n|---|---|---|---|---|")
    for preset, seeds in driven.items():
        say(console, row(preset, known[preset], seeds))
    return 1 if failed or any(below(known[preset], seeds) for preset, seeds in driven.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
