"""The benchmark's report: a table in the terminal, Markdown and JSON, and plots."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kartrl.config.levels import KINDS
from kartrl.kart.generalisation.curve import Estimate, Point, make_curve, make_matrix
from kartrl.kart.generalisation.figures import Figure, Row, circuit_measures, gaps, rows
from kartrl.kart.generalisation.pictures import draw_curve, draw_matrix, draw_table
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


def report(
    folder: Path, results: Sequence[Mapping[str, Any]], reference: Mapping[str, float | None], about: Mapping[str, Any]
) -> list[Row]:
    """Write results.json, results.md and its plots; returns the rows of the table.

    A policy trained on one kind has rows for that kind alone; the matrix shows how it drives on the others.

    Args:
        results: of one or more runs.
        reference: circuit -> the scripted driver's lap time, seconds.
        about: contents of `protocol.json`.
    """
    every_row = rows(results, reference)
    table = [row for row in every_row if _is_shown(row.split, row.set)]
    lost = gaps(results, reference)
    curve, matrix = make_curve(results, reference), make_matrix(results)
    content = {
        **about,
        "rows": [_to_json(row) for row in every_row],
        "lost_finished": {
            split: {label: value._asdict() for label, value in sets.items()} for split, sets in lost.items()
        },
        "curve": [{key: _plain(value) for key, value in point._asdict().items()} for point in curve],
        "kinds": matrix,
        "scripted_lap_seconds": reference,
        "runs": list(results),
    }
    write_json(folder / "results.json", content)
    more = _curve_lines(curve) + _matrix_lines(matrix)
    (folder / "results.md").write_text(_markdown(table, lost, more, results, reference, about), encoding="utf-8")
    draw_table(table, folder / "results.png", about)
    if curve:
        draw_curve(curve, folder / "curve.png")
    if matrix:
        draw_matrix(matrix, folder / "kinds.png")
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


def _is_shown(split: str, label: str) -> bool:
    return split not in KINDS or label in (SEEN, split)


def _to_json(row: Row) -> dict[str, Any]:
    return {key: _plain(value) for key, value in row._asdict().items()}


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, Figure | Estimate) else value


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
    more: Sequence[str],
    results: Sequence[Mapping[str, Any]],
    reference: Mapping[str, float | None],
    about: Mapping[str, Any],
) -> str:
    protocol = about["protocol"]
    seeds = sorted({result["seed"] for result in results})
    halved = " (half of that for the kinds)" if any(result["split"] in KINDS for result in results) else ""
    lines = [
        "# Generalisation",
        "",
        *(
            ["**Quick run, to test the setup: these figures do not follow the protocol.**", ""]
            if protocol["quick"]
            else []
        ),
        f"{protocol['agent_steps']:,} agent steps per run{halved}; seeds: {', '.join(map(str, seeds))}; "
        f"{protocol['episodes']} races per circuit; {protocol['policy']} policy; last checkpoint.",
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
                if _is_shown(split, label)
            ],
        ),
        "",
        *more,
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


def _curve_lines(curve: Sequence[Point]) -> list[str]:
    if not curve:
        return []
    cells = [
        [
            str(point.circuits),
            str(point.seeds),
            *(_format_estimate(value) for value in (point.seen, point.unseen, point.gap)),
            *("-" if lap is None else f"{lap:.2f}" for lap in (point.lap_seen, point.lap_unseen)),
        ]
        for point in curve
    ]
    return [
        "## By the number of circuits trained on",
        "",
        "Races finished, mean over circuits and seeds; in brackets 95 % intervals of a bootstrap over circuits.",
        "",
        *_markdown_table(
            ("circuits", "seeds", "trained on", "unseen", "gap", "lap / scripted, trained on", "unseen"), cells
        ),
        "",
        "![Races finished by the number of circuits trained on](curve.png)",
        "",
    ]


def _matrix_lines(matrix: Mapping[str, Mapping[str, float]]) -> list[str]:
    if not matrix:
        return []
    kinds = next(iter(matrix.values()))
    return [
        "## By kind",
        "",
        "Races finished on unseen circuits of each kind (columns) by policies trained on one kind (rows).",
        "",
        *_markdown_table(
            ("trained on", *kinds), [[kind, *(f"{row[other]:.0%}" for other in kinds)] for kind, row in matrix.items()]
        ),
        "",
        "![Races finished by kind](kinds.png)",
        "",
    ]


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.0%} [{estimate.low:.0%}, {estimate.high:.0%}]"


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
