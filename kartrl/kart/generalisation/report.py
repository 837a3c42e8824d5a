"""The benchmark's report: Markdown, of which the first table is printed too, JSON, and plots."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kartrl.comparison.report import markdown_table
from kartrl.comparison.statistics import Estimate
from kartrl.files import write_whole
from kartrl.kart.generalisation.pictures import draw_curve, draw_matrix, draw_table
from kartrl.kart.generalisation.protocol import write_json
from kartrl.kart.generalisation.results import Laps, Results, Row, circuit_measures, make_matrix, make_rows
from kartrl.kart.generalisation.splits import COUNTS, SEEN, UNSEEN
from kartrl.kart.levels import KINDS

COLUMNS = (
    "split",
    "driven on",
    "circuits",
    "seeds",
    "races finished",
    "laps of the race driven",
    "lap time / scripted driver's",
    "gap",
)


def report(folder: Path, results: Results, reference: Laps, about: Mapping[str, Any]) -> str:
    """Write results.json, results.md and its plots; returns the table of all sets, in Markdown.

    A policy trained on one kind has rows for that kind alone; the matrix shows how it drives on the others.
    """
    every_row = make_rows(results, reference)
    rows = [row for row in every_row if row.split not in KINDS or row.set in (SEEN, row.split)]
    matrix = make_matrix(every_row)
    by_set = {(row.split, row.set): row for row in rows}
    curve = {
        count: (by_set[name, SEEN], by_set[name, UNSEEN])
        for count, name in ((count, f"random{count}") for count in COUNTS)
        if (name, UNSEEN) in by_set
    }
    content = {
        **about,
        "rows": [_plain(row) for row in every_row],
        "kinds": matrix,
        "scripted_lap_seconds": reference,
        "runs": list(results),
    }
    write_json(folder / "results.json", content)
    table = markdown_table(COLUMNS, [_cells(row) for row in rows])
    text = _markdown(table, results, about) + _pictures(curve, matrix) + _by_circuit(results, reference)
    write_whole(folder / "results.md", text.encode())
    protocol = about["protocol"]
    quick = " (quick run, not the protocol)" if protocol["quick"] else ""
    title = f"Unseen circuits after {protocol['agent_steps']:,} agent steps{quick}"
    draw_table(rows, folder / "results.png", title)
    if curve:
        draw_curve(curve, folder / "curve.png")
    if matrix:
        draw_matrix(matrix, folder / "kinds.png")
    return table


def _plain(row: Row) -> dict[str, Any]:
    return {key: value._asdict() if isinstance(value, Estimate) else value for key, value in row._asdict().items()}


def _cells(row: Row) -> list[str]:
    time = "-" if row.lap_time is None else _format(row.lap_time, ".2f")
    if row.lap_time is not None and row.timed < row.circuits:
        time += f" on {row.timed}"
    shares = (_format(row.finished, ".0%"), _format(row.progress, ".0%"))
    gap = "" if row.lost is None else _format(row.lost, ".0%")
    return [row.split, row.set, str(row.circuits), str(row.seeds), *shares, time, gap]


def _format(estimate: Estimate, form: str) -> str:
    value, low, high = (format(number, form) for number in estimate)
    return f"{value} [{low}, {high}]"


def _markdown(table: str, results: Results, about: Mapping[str, Any]) -> str:
    protocol = about["protocol"]
    seeds = ", ".join(map(str, sorted({result["seed"] for result in results})))
    halved = " (half of that for the kinds)" if any(result["split"] in KINDS for result in results) else ""
    quick = "**Quick run, to test the setup: these figures do not follow the protocol.**\n\n"
    return f"""\
# Generalisation

{quick if protocol["quick"] else ""}\
{protocol["agent_steps"]:,} agent steps per run{halved}; seeds: {seeds}; {protocol["episodes"]} races per circuit; \
{protocol["policy"]} policy; last checkpoint.
kartrl {about["kartrl"]}, ROM build {about["rom_build_id"]}, {about["machine"]}.
Means over circuits, each the mean over its seeds and races; in brackets 95 % intervals of a bootstrap over circuits.
The gap is the fraction of races finished on the circuits trained on, minus that on these, for the same policies.

{table}
![Races finished and lap times](results.png)

"""


def _pictures(curve: Mapping[int, Sequence[Row]], matrix: Mapping[str, Mapping[str, float]]) -> str:
    text = ""
    if curve:
        text += "![Races finished by the number of circuits trained on](curve.png)\n\n"
    if matrix:
        shares = [[kind, *(f"{share:.0%}" for share in row.values())] for kind, row in matrix.items()]
        text += f"""\
## By kind

Races finished on unseen circuits of each kind (columns) by policies trained on one kind (rows).

{markdown_table(("trained on", *KINDS), shares)}
![Races finished by kind](kinds.png)

"""
    return text


def _by_circuit(results: Results, reference: Laps) -> str:
    cells = []
    for result in results:
        for circuit, member in result["circuits"].items():
            episodes = member["episodes"]
            measures = circuit_measures(episodes, reference.get(circuit))
            time = "-" if measures["lap_time"] is None else f"{measures['lap_time']:.2f}"
            races = f"{sum(episode['finished'] for episode in episodes)} of {len(episodes)}"
            where = (result["split"], str(result["seed"]), member["set"], circuit)
            cells.append([*where, races, f"{measures['progress']:.0%}", time])
    columns = ("split", "seed", "driven on", "circuit", "finished", "driven", "lap / scripted")
    return f"## Results by circuit\n\n{markdown_table(columns, cells)}"
