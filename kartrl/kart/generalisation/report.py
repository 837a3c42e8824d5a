"""The benchmark's report: a table in the terminal, Markdown and JSON, and a plot."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing
from rich.console import Console
from rich.table import Table

from kartrl.kart.generalisation.figures import Figure, Row, circuit_measures, gaps, rows
from kartrl.kart.generalisation.protocol import write_json
from kartrl.kart.generalisation.splits import SEEN

COLUMNS = (
    "split",
    "driven on",
    "circuits",
    "races finished",
    "laps of the race driven",
    "lap time / scripted driver's",
)
COLOURS = {True: "#3b6fb6", False: "#d1603d"}  # trained on, unseen


def report(
    folder: Path, results: Sequence[Mapping[str, Any]], reference: Mapping[str, float | None], about: Mapping[str, Any]
) -> list[Row]:
    """Write results.json, results.md and results.png; returns the rows of the table.

    Args:
        results: of one or more runs.
        reference: circuit -> the scripted driver's lap time, seconds.
        about: contents of `protocol.json`.
    """
    table = rows(results, reference)
    lost = gaps(results, reference)
    content = {
        **about,
        "rows": [_to_json(row) for row in table],
        "lost_finished": {
            split: {label: value._asdict() for label, value in sets.items()} for split, sets in lost.items()
        },
        "scripted_lap_seconds": reference,
        "runs": list(results),
    }
    write_json(folder / "results.json", content)
    (folder / "results.md").write_text(_markdown(table, lost, results, reference, about), encoding="utf-8")
    _plot(table, folder / "results.png", about)
    return table


def show(table: Sequence[Row], console: Console) -> None:
    """Print the table."""
    printed = Table()
    for number, column in enumerate(COLUMNS):
        printed.add_column(column, justify="left" if number < 2 else "right")
    split = ""
    for row in table:
        if row.split != split:
            printed.add_section()
        printed.add_row(row.split if row.split != split else "", *_cells(row))
        split = row.split
    console.print(printed)


def _to_json(row: Row) -> dict[str, Any]:
    return {key: value._asdict() if isinstance(value, Figure) else value for key, value in row._asdict().items()}


def _cells(row: Row) -> list[str]:
    times = "-" if row.lap_time is None else _format_figure(row.lap_time, "{:.2f}")
    if row.lap_time is not None and row.timed < row.circuits:
        times += f" on {row.timed}"
    return [
        row.set,
        str(row.circuits),
        _format_figure(row.finished, "{:.0%}"),
        _format_figure(row.progress, "{:.0%}"),
        times,
    ]


def _format_figure(figure: Figure, form: str) -> str:
    mean = form.format(figure.mean)
    if figure.low is None or figure.high is None:
        return mean
    return f"{mean} [{form.format(figure.low)}, {form.format(figure.high)}]"


def _markdown(
    table: Sequence[Row],
    lost: Mapping[str, Mapping[str, Figure]],
    results: Sequence[Mapping[str, Any]],
    reference: Mapping[str, float | None],
    about: Mapping[str, Any],
) -> str:
    protocol = about["protocol"]
    seeds = sorted({result["seed"] for result in results})
    lines = [
        "# Generalisation",
        "",
        *(
            ["**Quick run, to test the setup: these figures do not follow the protocol.**", ""]
            if protocol["quick"]
            else []
        ),
        f"{protocol['agent_steps']:,} agent steps per run, seeds {', '.join(map(str, seeds))}, "
        f"{protocol['episodes']} races per circuit, {protocol['policy']} policy, last checkpoint.",
        f"kartrl {about['kartrl']}, ROM build {about['rom_build_id']}, {about['machine']}.",
        "Means over seeds; 95 % confidence intervals by Student's t if there are several seeds.",
        "",
        *_markdown_table(COLUMNS, [[row.split, *_cells(row)] for row in table]),
        "",
        "## Generalisation gap",
        "",
        "Fraction of races finished on the circuits trained on, minus that on unseen circuits, for the same policies.",
        "",
        *_markdown_table(
            ("split", "unseen", "lost"),
            [
                [split, label, _format_figure(value, "{:.0%}")]
                for split, sets in lost.items()
                for label, value in sets.items()
            ],
        ),
        "",
        "## Results by circuit",
        "",
        *_markdown_table(
            ("split", "seed", "driven on", "circuit", "finished", "driven", "lap / scripted"),
            _circuit_cells(results, reference),
        ),
        "",
        "![Races finished and lap times](results.png)",
        "",
    ]
    return "\n".join(lines)


def _circuit_cells(results: Sequence[Mapping[str, Any]], reference: Mapping[str, float | None]) -> list[list[str]]:
    cells = []
    for result in results:
        for circuit, member in result["circuits"].items():
            one = circuit_measures(member["episodes"], reference.get(circuit))
            finished = sum(episode["finished"] for episode in member["episodes"])
            time = "-" if one["lap_time"] is None else f"{one['lap_time']:.2f}"
            races = f"{finished} of {len(member['episodes'])}"
            cells.append(
                [result["split"], str(result["seed"]), member["set"], circuit, races, f"{one['progress']:.0%}", time]
            )
    return cells


def _markdown_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *cells)]


def _plot(table: Sequence[Row], file: Path, about: Mapping[str, Any]) -> None:
    """Plot each row: a dot per seed, the mean, and the interval."""
    figure = Drawing(figsize=(10, 1.3 + 0.36 * len(table)), layout="constrained")
    FigureCanvasAgg(figure)
    shares, times = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for place, row in enumerate(table):
        _plot_row(shares, place, row.finished, row.set == SEEN, 100)
        if row.lap_time is not None:
            _plot_row(times, place, row.lap_time, row.set == SEEN, 1)
    shares.set_yticks(range(len(table)), [f"{row.split}: {row.set} ({row.circuits})" for row in table])
    shares.invert_yaxis()
    shares.set(xlim=(-3, 103), xlabel="races finished, %")
    times.set(xlabel="lap time / scripted driver's")
    times.axvline(1, color="0.7", linewidth=0.8)
    for axes in (shares, times):
        axes.grid(axis="x", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    protocol = about["protocol"]
    quick = " (quick run, not the protocol)" if protocol["quick"] else ""
    figure.suptitle(f"Unseen circuits after {protocol['agent_steps']:,} agent steps{quick}", fontsize=11)
    figure.savefig(file, dpi=110)


def _plot_row(axes: Axes, place: int, figure: Figure, seen: bool, scale: float) -> None:
    colour = COLOURS[seen]
    if figure.low is not None and figure.high is not None:
        axes.plot([scale * figure.low, scale * figure.high], [place, place], color=colour, linewidth=2, alpha=0.5)
    axes.plot(
        [scale * value for value in figure.seeds],
        [place] * len(figure.seeds),
        ".",
        color=colour,
        alpha=0.6,
        markersize=6,
    )
    axes.plot([scale * figure.mean], [place], "o" if seen else "D", color=colour, markersize=7)
