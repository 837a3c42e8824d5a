"""Writes docs/results/ from the records in results/, which `kartrl compare --record` makes: `make results`.

python benchmarks/result_pages.py
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from kartrl.comparison.record import MACHINES, changes_since
from kartrl.comparison.report import markdown_table
from kartrl.comparison.statistics import mean_band
from kartrl.files import safe_name, write_whole

ROOT = Path(__file__).resolve().parents[1]
RECORDS, PAGES = ROOT / "results", ROOT / "docs" / "results"
INDEX = "README.md"
HEAD = "<!-- Written by `make results` from the records in results/: edit those. -->\n\n"
COLUMNS = ("task", "group", "agent steps", "minutes", "score", "seeds", "machine", "date", "commit", "defaults")
Record = Mapping[str, Any]


def main() -> None:
    records, machines = read_records(RECORDS)
    PAGES.mkdir(exist_ok=True)
    for name, text in make_pages(records, machines).items():
        write_whole(PAGES / name, text.encode())
    for task, same in by_task(records).items():
        draw(same, PAGES / f"{safe_name(task)}.png")


def read_records(folder: Path) -> tuple[list[Record], dict[str, str]]:
    """The records, and the machines by letter."""
    files = sorted(file for file in folder.glob("*.json") if file.name != MACHINES)
    machines = json.loads((folder / MACHINES).read_text(encoding="utf-8"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files], machines


def by_task(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each task."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["task"], []).append(record)
    return found


def make_pages(records: Sequence[Record], machines: Mapping[str, str]) -> dict[str, str]:
    """File name -> Markdown: a page for each task, and one with a row for each record."""
    changed = {id(record): changes_since(record) for record in records}
    rows = [
        [
            f"[{record['task']}]({safe_name(record['task'])}.md)",
            record["group"],
            f"{record['curve']['steps'][-1]:,.0f}",
            minutes(record),
            score(record),
            " ".join(map(str, record["seeds"])),
            record["machine"],
            record["date"],
            str(record["commit"])[:10],
            "changed since" if changed[id(record)] else "the same",
        ]
        for record in records
    ]
    about = (
        "The score is the interquartile mean over seeds of the mean over the last tenth of the training, with its 95 % "
        "interval ([comparing.md](../comparing.md)); of the return of training episodes, unless the task's page names "
        "another metric. Minutes are those of whole runs. The last column says whether the command would train the "
        "same today.\n\n"
    )
    letters = "".join(f"- {letter}: {machine}\n" for letter, machine in machines.items())
    index = f"{HEAD}# Recorded results\n\n{about}{markdown_table(COLUMNS, rows)}\nMachines:\n\n{letters}"
    pages = {INDEX: index}
    for task, same in by_task(records).items():
        parts = [f"{HEAD}# {task}\n\n![Curves of all groups, with 95 % bands]({safe_name(task)}.png)\n"]
        parts += [section(record, machines, changed[id(record)]) for record in same]
        pages[f"{safe_name(task)}.md"] = "\n".join(parts)
    return pages


def section(record: Record, machines: Mapping[str, str], changed: Sequence[str]) -> str:
    """What a task's page says about a record."""
    rows = [
        [str(run["seed"]), f"{run['at_steps']:.4g}", f"{run['at_minutes']:.4g}", f"{took:g}"]
        for run, took in zip(record["runs"], record["minutes"], strict=True)
    ]
    headings = (
        "seed",
        f"{record['metric']} at {record['curve']['steps'][-1]:,.0f} steps",
        "at equal minutes",
        "minutes",
    )
    seeds = " ".join(map(str, record["seeds"]))
    machine = f"{record['machine']} ({machines[record['machine']]})"
    lines = [
        f"## {record['group']}\n",
        f"```\n{record['command']}\n```\n",
        f"with `--seed` {seeds}: {score(record)}. {record['date']}, commit {record['commit']}, {record['packages']}; "
        f"machine {machine}; configuration {record['hash']}.\n",
        markdown_table(headings, rows),
        f"What failed: {'; '.join(record['failed']) or 'nothing'}.\n",
    ]
    if changed:
        lines.append(
            f"**The defaults have changed since**, and the command trains something else: {'; '.join(changed)}.\n"
        )
    return "\n".join(lines)


def score(record: Record) -> str:
    value, low, high = (record["at_steps"][key] for key in ("iqm", "low", "high"))
    return f"{value:.4g}" + ("" if low is None else f" [{low:.4g}, {high:.4g}]")


def minutes(record: Record) -> str:
    low, high = min(record["minutes"]), max(record["minutes"])
    return f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"


def draw(records: Sequence[Record], file: Path) -> None:
    """The curves of the records of a task."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for record in records:
        values = np.array(record["curve"]["values"], np.float64)
        band = mean_band(values, np.random.default_rng(0))
        axes.plot(record["curve"]["steps"], band.value, label=record["group"])
        axes.fill_between(record["curve"]["steps"], band.low, band.high, alpha=0.2, linewidth=0)
    axes.set(title=records[0]["task"], xlabel="agent steps", ylabel=records[0]["metric"])
    axes.legend(frameon=False)
    figure.savefig(file, dpi=80, metadata={"Software": None})


if __name__ == "__main__":
    main()
