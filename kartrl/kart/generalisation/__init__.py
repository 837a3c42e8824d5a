"""`kartrl benchmark generalisation`: measures zero-shot generalisation to circuits not trained on.

docs/generalisation.md describes the protocol. A results folder contains `protocol.json`, `runs/` with a run folder and
its `result.json` per split and seed, `reference.json` (the scripted driver's laps), and the report: `results.json`,
`.md` and `.png`.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from kartrl import config
from kartrl.errors import RunFailed, UserError
from kartrl.kart.game_files import core_file
from kartrl.kart.generalisation.driving import circuits_in, measure, reference_laps
from kartrl.kart.generalisation.protocol import Protocol, record_circuits, record_protocol, validate, write_json
from kartrl.kart.generalisation.report import report, show
from kartrl.kart.generalisation.splits import QUICK, SEEN, SPLITS, Split, chosen
from kartrl.kart.generalisation.training import Run, train
from kartrl.learning import checkpoint
from kartrl.metrics.scalars_csv import last_step

SIZES, QUICK_SIZES = (2, 400_000, 2), (1, 60_000, 1)  # seeds, agent steps per run, episodes per circuit
DRIVING = 0.12  # approximate cost of the evaluation relative to training, for the estimated time left


class Plan(NamedTuple):
    """Options of `kartrl benchmark generalisation`."""

    folder: Path  # of the results
    splits: Sequence[Split]
    seeds: int
    protocol: Protocol


def make_plan(
    folder: Path | None, quick: bool, splits: Sequence[str], sizes: Sequence[int | None], overrides: Sequence[str]
) -> Plan:
    """Create a plan from the command line.

    Args:
        folder: of the results; None: the default.
        quick: use the small version.
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
    """
    core_file()
    protocol = validate(plan.protocol)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(plan.folder / "benchmark.lock")
        with lock.acquire(timeout=0):
            record_protocol(plan.folder, protocol, plan.splits)
            return _Benchmark(plan, console).run()
    except KeyboardInterrupt:
        console.print("Interrupted; run the same command to resume", highlight=False)
        raise
    except RunFailed as failure:
        console.print(f"kartrl: {failure}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 1
    except Timeout as error:
        raise UserError(f"{plan.folder}: another benchmark is running in this folder") from error
    except OSError as error:
        raise UserError(
            f"{plan.folder}: cannot write ({error.strerror or error}); choose another folder with -o"
        ) from error


class _Benchmark:
    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan, self._console = plan, console
        folder = plan.folder / "runs"
        # seed by seed, so that an interrupted benchmark has results of every split
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
        self._work = sum(map(self._work_of, self._runs))
        self._began = time.monotonic()
        self._before = sum(self._work_done(run) for run in self._runs)

    def run(self) -> int:
        plan, failures = self._plan, []
        everything = [circuit for sets in self._circuits.values() for circuits in sets.values() for circuit in circuits]
        record_circuits(plan.folder, everything)
        with self._progress:
            self._task = self._progress.add_task("", total=self._work, left="")
            self._update_progress("reference laps of the scripted driver")
            reference = reference_laps(plan.folder / "reference.json", everything, lambda: None)
            for number, run in enumerate(self._runs, 1):
                if run.result.exists():
                    continue
                self._print(f"{run.name}, {number} of {len(self._runs)} runs{self._time_left()}")
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
                f"Failed: {names}; run the same command to retry", style="red", highlight=False, soft_wrap=True
            )
        return 1 if failures else 0

    def _run(self, run: Run) -> None:
        protocol, sets = self._plan.protocol, self._circuits[run.split.name]
        path = train(run, protocol, lambda: self._update_progress(f"{run.name}: training"))
        counters = checkpoint.load(path).counters
        count, driven = sum(map(len, sets.values())), 0

        def on_circuit() -> None:
            nonlocal driven
            driven += 1
            done = DRIVING * protocol.steps_of(run.split) * driven / count
            self._update_progress(f"{run.name}: evaluating on {count} circuits", done)

        circuits = measure(path, sets, protocol.episodes, on_circuit)
        result = {
            "split": run.split.name,
            "seed": run.seed,
            "agent_steps": counters.agent_steps,
            "training_seconds": counters.seconds,
        }
        write_json(run.result, {**result, "circuits": circuits})
        self._print(f"{run.name}: races finished {', '.join(_format_shares(circuits))}")

    def _work_of(self, run: Run) -> float:
        """Work of a run, in agent steps."""
        return self._plan.protocol.steps_of(run.split) * (1 + DRIVING)

    def _work_done(self, run: Run) -> float:
        """Completed work of a run, in agent steps."""
        if run.result.exists():
            return self._work_of(run)
        return min(last_step(run.folder), self._plan.protocol.steps_of(run.split))

    def _update_progress(self, doing: str, more: float = 0.0) -> None:
        done = sum(self._work_done(run) for run in self._runs) + more
        self._progress.update(self._task, completed=done, description=doing, left=self._time_left(done))

    def _time_left(self, done: float | None = None) -> str:
        """Estimated time left, from the speed since this process started."""
        done = sum(self._work_done(run) for run in self._runs) if done is None else done
        if done <= self._before:
            return ""
        seconds = (self._work - done) * (time.monotonic() - self._began) / (done - self._before)
        return f", about {int(seconds) // 3600}:{int(seconds) // 60 % 60:02} h left"

    def _print(self, message: str) -> None:
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)


def _format_shares(circuits: dict[str, Any]) -> list[str]:
    sets: dict[str, list[bool]] = {SEEN: []}
    for member in circuits.values():
        sets.setdefault(member["set"], []).extend(episode["finished"] for episode in member["episodes"])
    return [f"{sum(races) / len(races):.0%} ({label})" for label, races in sets.items() if races]
