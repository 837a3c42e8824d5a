"""Records of results: one JSON file for each group of runs on a task, with what repeats it and what judges it."""

import argparse
import hashlib
import json
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kartrl import __version__
from kartrl.comparison.curves import places
from kartrl.comparison.report import Comparison, as_json, curves
from kartrl.comparison.runs import ComparedRun
from kartrl.config import Config, presets, read, settings
from kartrl.config.algorithms import ALGORITHMS
from kartrl.config.chosen import unchosen
from kartrl.config.explanation import changes
from kartrl.errors import UserError
from kartrl.files import check_replaceable, explained, safe_name, write_whole
from kartrl.launch import config_options
from kartrl.options import add_training, config_files

OWN = ("run.logs", "run.name", "run.seed")  # keys that say where a run is, and which of several it is
INIT = "run.init"
MACHINES = "machines.json"  # beside the records: letter -> machine
KEPT = 5  # of so many points of a curve, one
COMMIT = re.compile(r"commit (\w+(?:, with changes)?)")

Values = dict[str, Any]  # section.key -> value


def write_records(
    comparison: Comparison, folder: Path, force: bool, options: Mapping[tuple[str, str], Sequence[str]]
) -> list[Path]:
    """Write a record of each group on each task; returns the files.

    Args:
        force: replace files of these names.
        options: (group, task) -> options of `kartrl train`, if an experiment has them; else a run's folder tells them.

    Raises:
        UserError: how a run was trained is not known, or would be something else by now; runs of a group differ in more
            than their seeds; a file exists; or it cannot be written.
    """
    cells = [(label, task) for task in comparison.tasks for label in comparison.groups]
    files = {cell: folder / f"{safe_name(f'{cell[1]}-{cell[0]}')}.json" for cell in cells}
    if len({*files.values()}) < len(files):
        raise UserError("--record: the names of two groups are the same in a file's name; name them otherwise")
    machines = {}
    try:
        if (folder / MACHINES).exists():
            machines = json.loads((folder / MACHINES).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"--record {folder}: cannot read {MACHINES} ({error})") from error
    records = {files[cell]: _json(make_record(comparison, *cell, machines, options.get(cell))) for cell in cells}
    check_replaceable(records, force)
    with explained(f"--record {folder}", "write"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in [*records.items(), (folder / MACHINES, _json(machines))]:
            write_whole(file, content)
    return list(records)


def _json(content: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(content, indent=1)}\n".encode()


def make_record(
    comparison: Comparison, label: str, task: str, machines: dict[str, str], options: Sequence[str] | None
) -> dict[str, Any]:
    """What docs/comparing.md describes.

    Args:
        machines: letter -> machine; a new one gets the next letter.
        options: see `write_records`.

    Raises:
        UserError: see `write_records`.
    """
    runs, index = comparison.groups[label][task], comparison.tasks.index(task)
    config = _common(runs)
    source = runs[0].source
    command = source.get("command", "") if options is None else shlex.join(["train", *options])
    files, overrides = _given(command)
    kept = [one for one in overrides if one.partition("=")[0].strip() not in OWN]
    bundled = [file for file in files if file in presets()]
    if bundled != files:
        kept = _written_out(read(files, kept), bundled, kept)
    record = {
        "kartrl": __version__,
        "task": task,
        "group": label,
        "by": comparison.by,
        "metric": comparison.metric,
        "command": shlex.join(["kartrl", "train", *config_options(bundled, kept)]),
        "config": config,
        "hash": fingerprint(config),
    }
    if changed := changes_since(record):
        raise UserError(f"{runs[0].name}: {record['command']} would train something else: {', '.join(changed)}")
    commit, machine = COMMIT.search(source.get("version", "")), source.get("machine", "not known")
    letter = next((letter for letter, known in machines.items() if known == machine), None)
    if letter is None:
        number = len(machines)
        machines[letter := f"{chr(ord('A') + number % 26)}{number // 26 or ''}"] = machine
    measured = as_json(comparison)["tasks"][index]
    budget, points = comparison.budgets[task], slice(KEPT - 1, None, KEPT)
    steps = [round(step) for step in places(budget.steps)[points]]
    values = [_rounded(curve[points]) for curve in curves(runs, budget, by_steps=True)]
    ended = max(run.ended for run in runs)
    return record | {
        "commit": None if commit is None else commit[1],
        "packages": source.get("packages", ""),
        "machine": letter,
        "date": time.strftime("%Y-%m-%d", time.gmtime(ended)) if ended else "",
        "seeds": [run.config.run.seed for run in runs],
        "minutes": [round(float(run.points.minutes.max()), 2) for run in runs],
        **{key: measured["groups"][list(comparison.groups).index(label)][key] for key in ("at_steps", "runs")},
        "curve": {"steps": steps, "values": values},
        "failed": [],
    }


def fingerprint(config: Mapping[str, Any]) -> str:
    """A digest of a configuration, section.key -> value."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]


def changes_since(record: Mapping[str, Any]) -> list[str]:
    """The keys to which a record's command would give other values now; what `auto` chooses is the same.

    Keys that have been added or removed since, which the command does not set, are left out.
    """
    try:
        files, overrides = _given(record["command"])
        now = _values(read(files, overrides))
    except UserError as error:
        return [str(error)]
    before = record["config"]
    both = {key: (value, now[key]) for key, value in before.items() if key in now}
    if "none" not in both.get(INIT, ("none",)):
        del both[INIT]  # a name in the command is a file in the run's configuration
    uses = {key for key in (*before, *now) if key.startswith("levels.")}  # without those that are not used
    both |= {key: (before.get(key, "none"), now.get(key, "none")) for key in uses}
    return [
        f"{key} was {then}, is {value}" for key, (then, value) in sorted(both.items()) if value not in ("auto", then)
    ]


def _written_out(config: Config, files: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Overrides that make this configuration of these files: what was read from others is written out."""
    its_id = f"environment.id={config.environment.id}"
    if its_id not in overrides and read(files).environment.id != config.environment.id:
        overrides = [its_id, *overrides]
    others = ALGORITHMS.keys() - {config.algorithm.name}
    return [*overrides] + [
        f"{change.section}.{change.key}={'none' if change.here is None else change.here}"  # None: a level's use
        for change in changes(config, read(files, overrides))
        if f"{change.section}.{change.key}" not in OWN and change.section not in others
    ]


def _common(runs: Sequence[ComparedRun]) -> Values:
    """The configuration of runs that differ in their seeds alone."""
    first = _values(runs[0].config)
    for run in runs:
        for config in (run.config, run.resumed):
            its = _values(unchosen(config))
            for key, value in _values(unchosen(runs[0].config)).items():
                if its.get(key) != value:
                    raise UserError(f"--record: {runs[0].name} has {key} = {value}, {run.name} has {its.get(key)}")
    return first


def _values(config: Config) -> Values:
    return {key: value for key, value in settings(config).items() if key not in OWN}


def _given(command: str) -> tuple[list[str], list[str]]:
    """The configuration files and overrides of a command that trains.

    Raises:
        UserError: there are none such.
    """
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    add_training(parser)
    try:
        options, _ = parser.parse_known_args(shlex.split(command))
    except (ValueError, argparse.ArgumentError) as error:
        raise UserError(f"not a command that trains: {command[:80]}") from error
    if not command:
        raise UserError("--record: the run's folder does not say how it was trained")
    return config_files(options), options.set


def _rounded(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in values]
