"""`kartrl benchmark generalisation`: measures zero-shot generalisation to circuits not trained on.

docs/generalisation/protocol.md describes the protocol. A results folder contains `protocol.json`, `runs/` with a run
folder and its `result.json` per split and seed, `reference.json` (the scripted driver's laps), and the report:
`results.json`, `.md` and `.png`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from rich.console import Console

from kartrl import config
from kartrl.comparison.experiment import Cell, resumable, train_all
from kartrl.errors import UserError
from kartrl.kart.game_files import core_file
from kartrl.kart.generalisation.driving import GAME, measure, reference_laps
from kartrl.kart.generalisation.protocol import Protocol, record_circuits, record_protocol, validate, write_json
from kartrl.kart.generalisation.report import report
from kartrl.kart.generalisation.splits import QUICK, SEEN, SPLITS, Split, chosen
from kartrl.kart.selection import circuits_of
from kartrl.learning import checkpoint
from kartrl.metrics.tables import say

SIZES, QUICK_SIZES = (2, 400_000, 2), (1, 60_000, 1)  # seeds, agent steps per run, episodes per circuit


class Plan(NamedTuple):
    """Options of `kartrl benchmark generalisation`."""

    folder: Path  # of the results
    splits: Sequence[Split]
    seeds: int
    protocol: Protocol


class Run(NamedTuple):
    """A policy to train and evaluate: a split and a seed."""

    split: Split
    cell: Cell

    @property
    def result(self) -> Path:
        """File with the results of the evaluation."""
        return self.cell.folder / "result.json"


def make_plan(
    folder: Path | None, quick: bool, splits: Sequence[str], sizes: Sequence[int | None], overrides: Sequence[str]
) -> Plan:
    """Create a plan from the command line.

    Args:
        splits: names; empty: all.
        sizes: seeds, agent steps and episodes; None: the default.

    Raises:
        UserError: unknown split.
    """
    seeds, agent_steps, episodes = (
        size or usual for size, usual in zip(sizes, QUICK_SIZES if quick else SIZES, strict=True)
    )
    usual = config.Run().logs_folder / ("generalisation-quick" if quick else "generalisation")
    protocol = Protocol(agent_steps, episodes, tuple(overrides), quick)
    return Plan(folder or usual, chosen(splits, QUICK if quick else SPLITS), seeds, protocol)


def benchmark(plan: Plan, console: Console) -> int:
    """Train and evaluate the runs that are missing in the folder, then report on all runs of the plan.

    Returns:
        The exit status: 1 if a run failed; the report then covers the others.

    Raises:
        UserError: invalid input, or the folder has results of another protocol or is in use by another process.
        RunFailed: the scripted driver's process crashed.
    """
    core_file()
    validate(plan.protocol)
    with resumable(plan.folder, console):
        plan.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(plan.folder / "benchmark.lock").acquire(timeout=0):
                record_protocol(plan.folder, plan.protocol, plan.splits)
                return _benchmark(plan, console)
        except Timeout as error:
            raise UserError(f"{plan.folder}: another benchmark is running in this folder") from error


def _benchmark(plan: Plan, console: Console) -> int:
    circuits = {
        split.name: {label: circuits_of(keys, GAME, console) for label, keys in split.sets().items()}
        for split in plan.splits
    }
    everything = [circuit for sets in circuits.values() for every in sets.values() for circuit in every]
    record_circuits(plan.folder, everything)
    reference = reference_laps(plan.folder / "reference.json", everything)
    runs = [
        Run(split, Cell("", plan.protocol.config_of(split, seed, folder), folder))
        for seed in range(1, plan.seeds + 1)  # seed by seed, so that an interrupted benchmark has results of all splits
        for split in plan.splits
        if (folder := plan.folder / "runs" / f"{split.name}-seed{seed}")
    ]
    missing = {run.cell.folder: run for run in runs if not run.result.exists()}

    def evaluate(cell: Cell, path: Path) -> None:
        run, counters = missing[cell.folder], checkpoint.load(path).counters
        say(console, f"{cell.folder.name}: evaluating")
        driven = measure(path, circuits[run.split.name], plan.protocol.episodes)
        about = {
            "split": run.split.name,
            "seed": cell.config.run.seed,
            "agent_steps": counters.agent_steps,
            "training_seconds": counters.seconds,
        }
        write_json(run.result, {**about, "circuits": driven})
        say(console, f"{cell.folder.name}: races finished {', '.join(_format_shares(driven))}")

    failed = train_all([run.cell for run in missing.values()], console, evaluate)
    results = [json.loads(run.result.read_text(encoding="utf-8")) for run in runs if run.result.exists()]
    if results:
        about = json.loads((plan.folder / "protocol.json").read_text(encoding="utf-8"))
        say(console, report(plan.folder, results, reference, about))
        say(console, f"Report: {plan.folder / 'results.md'}, .json and .png")
    return 1 if failed else 0


def _format_shares(circuits: dict[str, Any]) -> list[str]:
    sets: dict[str, list[bool]] = {SEEN: []}
    for member in circuits.values():
        sets.setdefault(member["set"], []).extend(episode["finished"] for episode in member["episodes"])
    return [f"{sum(races) / len(races):.0%} ({label})" for label, races in sets.items() if races]
