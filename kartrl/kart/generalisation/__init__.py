"""`kartrl benchmark generalisation`: how well driving carries over to circuits that were never trained on.

docs/generalisation.md describes the protocol. A results folder holds `protocol.json`, a run folder for each split and seed in
`runs/` with `result.json` in it, `reference.json` (the scripted driver's laps), and the report: `results.json`, `.md`, `.png`.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from kartrl.errors import RunFailed, UserError
from kartrl.kart.generalisation.driving import circuits_in, measure, reference_laps
from kartrl.kart.generalisation.protocol import Protocol, checked, keep, keep_circuits, write_json
from kartrl.kart.generalisation.report import report, show
from kartrl.kart.generalisation.splits import QUICK, SEEN, SPLITS, Split, chosen
from kartrl.kart.generalisation.training import Run, train
from kartrl.kart.retro import core_file
from kartrl.learning import checkpoint
from kartrl.metrics.scalars_csv import last_step

SIZES, QUICK_SIZES = (3, 2_000_000, 3), (1, 100_000, 1)  # seeds, agent steps of a training, races on each circuit
DRIVING = 0.05  # what driving in the end takes of a run, about; only the estimate of the time left depends on it


class Plan(NamedTuple):
    """What `kartrl benchmark generalisation` was asked."""

    folder: Path  # of the results
    splits: Sequence[Split]
    seeds: int
    protocol: Protocol


def make_plan(
    folder: Path | None, quick: bool, splits: Sequence[str], sizes: Sequence[int | None], overrides: Sequence[str]
) -> Plan:
    """What the command line asks for.

    Args:
        folder: of the results; None: the usual one.
        quick: the small version.
        splits: their names; empty: all.
        sizes: seeds, agent steps and episodes; None: the usual number.

    Raises:
        UserError: there is no such split.
    """
    seeds, agent_steps, episodes = (
        size or usual for size, usual in zip(sizes, QUICK_SIZES if quick else SIZES, strict=True)
    )
    usual = Path("logs") / ("generalisation-quick" if quick else "generalisation")
    protocol = Protocol(agent_steps, episodes, tuple(overrides), quick)
    return Plan(folder or usual, chosen(splits, QUICK if quick else SPLITS), seeds, protocol)


def benchmark(plan: Plan, console: Console) -> int:
    """Train and measure what is not done yet in the folder, then report on all that was asked for.

    Returns:
        The exit status: 1 where a run failed; the report then is about the others.

    Raises:
        UserError: bad input, or the folder holds results of another protocol, or another process is at it.
    """
    core_file()
    protocol = checked(plan.protocol)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(plan.folder / "benchmark.lock")
        with lock.acquire(timeout=0):
            keep(plan.folder, protocol, plan.splits)
            return _Benchmark(plan, console).run()
    except KeyboardInterrupt:
        console.print("Interrupted; the same command goes on where it stopped", highlight=False)
        raise
    except RunFailed as failure:
        console.print(f"kartrl: {failure}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 1
    except Timeout as error:
        raise UserError(f"{plan.folder}: another benchmark is at work in this folder") from error
    except OSError as error:
        raise UserError(
            f"{plan.folder}: cannot write there ({error.strerror or error}); choose another folder with -o"
        ) from error


class _Benchmark:
    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan, self._console = plan, console
        folder = plan.folder / "runs"
        # all splits with the first seed, then with the second: an interrupted benchmark has something of each
        self._runs = [
            Run(split, seed, folder / f"{split.name}-seed{seed}")
            for seed in range(1, plan.seeds + 1)
            for split in plan.splits
        ]
        self._circuits = {split.name: circuits_in(split, console) for split in plan.splits}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns, TextColumn("{task.fields[left]}"), console=console, disable=not console.is_terminal
        )
        self._work = plan.protocol.agent_steps * (1 + DRIVING)  # of a run
        self._began = time.monotonic()
        self._before = sum(self._done(run) for run in self._runs)

    def run(self) -> int:
        plan, failures = self._plan, []
        everything = [circuit for sets in self._circuits.values() for circuits in sets.values() for circuit in circuits]
        keep_circuits(plan.folder, everything)
        with self._progress:
            self._task = self._progress.add_task("", total=self._work * len(self._runs), left="")
            self._look("the scripted driver's laps")
            reference = reference_laps(plan.folder / "reference.json", everything, lambda: None)
            for number, run in enumerate(self._runs, 1):
                if run.result.exists():
                    continue
                self._say(f"{run.name}, {number} of {len(self._runs)} runs{self._left()}")
                try:
                    self._run(run)
                except RunFailed as failure:
                    failures.append(run)
                    self._console.print(
                        f"kartrl: {run.name}: {failure}", style="red", highlight=False, markup=False, soft_wrap=True
                    )
        results = [json.loads(run.result.read_text(encoding="utf-8")) for run in self._runs if run.result.exists()]
        if results:
            about: dict[str, Any] = json.loads((plan.folder / "protocol.json").read_text(encoding="utf-8"))
            show(report(plan.folder, results, reference, about), self._console)
            self._console.print(
                f"Report: {plan.folder / 'results.md'}, .json and .png", highlight=False, soft_wrap=True
            )
        if failures:
            names = ", ".join(run.name for run in failures)
            self._console.print(
                f"Failed: {names}; the same command tries them again", style="red", highlight=False, soft_wrap=True
            )
        return 1 if failures else 0

    def _run(self, run: Run) -> None:
        protocol, sets = self._plan.protocol, self._circuits[run.split.name]
        path = train(run, protocol, lambda _: self._look(f"{run.name}: training"))
        counters = checkpoint.load(path).counters
        count, driven = sum(map(len, sets.values())), 0

        def on_circuit() -> None:
            nonlocal driven
            driven += 1
            self._look(f"{run.name}: driving on {count} circuits", DRIVING * protocol.agent_steps * driven / count)

        circuits = measure(path, sets, protocol.episodes, on_circuit)
        result = {
            "split": run.split.name,
            "seed": run.seed,
            "agent_steps": counters.agent_steps,
            "training_seconds": counters.seconds,
        }
        write_json(run.result, {**result, "circuits": circuits})
        self._say(f"{run.name}: races finished {', '.join(_shares(circuits))}")

    def _done(self, run: Run) -> float:
        """How much of a run's work is done, in agent steps."""
        return self._work if run.result.exists() else min(last_step(run.folder), self._plan.protocol.agent_steps)

    def _look(self, doing: str, more: float = 0.0) -> None:
        done = sum(self._done(run) for run in self._runs) + more
        self._progress.update(self._task, completed=done, description=doing, left=self._left(done))

    def _left(self, done: float | None = None) -> str:
        """How long the rest will take at the speed since this process began."""
        done = sum(self._done(run) for run in self._runs) if done is None else done
        if done <= self._before:
            return ""
        seconds = (self._work * len(self._runs) - done) * (time.monotonic() - self._began) / (done - self._before)
        return f", about {int(seconds) // 3600}:{int(seconds) // 60 % 60:02} h left"

    def _say(self, message: str) -> None:
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)


def _shares(circuits: dict[str, Any]) -> list[str]:
    sets: dict[str, list[bool]] = {SEEN: []}
    for member in circuits.values():
        sets.setdefault(member["set"], []).extend(episode["finished"] for episode in member["episodes"])
    return [f"{sum(races) / len(races):.0%} ({label})" for label, races in sets.items() if races]
