"""Plots of the benchmark's report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from kartrl.kart.generalisation.curve import Point
from kartrl.kart.generalisation.figures import Figure, Row
from kartrl.kart.generalisation.splits import SEEN

COLOURS = {True: "#3b6fb6", False: "#d1603d"}  # trained on, unseen
DPI = 110


def draw_table(table: Sequence[Row], file: Path, about: Mapping[str, Any]) -> None:
    """Plot each row: a dot per seed, the mean, and the interval."""
    figure = Drawing(figsize=(10, 1.3 + 0.36 * len(table)), layout="constrained")
    FigureCanvasAgg(figure)
    shares, times = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for place, row in enumerate(table):
        _plot_row(shares, place, row.finished, row.set == SEEN, 100)
        if row.lap_time is not None:
            _plot_row(times, place, row.lap_time, row.set == SEEN, 1)
    shares.set_yticks(range(len(table)), [f"{row.split}: {row.set} ({row.circuits})" for row in table])
    shares.set_ylim(len(table) - 0.4, -0.6)
    shares.set(xlim=(-3, 103), xlabel="races finished, %")
    times.set(xlabel="lap time / scripted driver's")
    times.axvline(1, color="0.7", linewidth=0.8)
    for axes in (shares, times):
        axes.grid(axis="x", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    protocol = about["protocol"]
    quick = " (quick run, not the protocol)" if protocol["quick"] else ""
    figure.suptitle(f"Unseen circuits after {protocol['agent_steps']:,} agent steps{quick}", fontsize=11)
    figure.savefig(file, dpi=DPI)


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


def draw_curve(curve: Sequence[Point], file: Path) -> None:
    """Plot races finished and lap times on both sets over the number of training circuits."""
    figure = Drawing(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    shares, times = figure.subplots(1, 2, width_ratios=(3, 2))
    counts = [point.circuits for point in curve]
    for seen, label in ((True, "trained on"), (False, "unseen")):
        estimates = [point.seen if seen else point.unseen for point in curve]
        laps = [point.lap_seen if seen else point.lap_unseen for point in curve]
        style = {"color": COLOURS[seen], "marker": "o" if seen else "D", "markersize": 5}
        shares.plot(counts, [100 * estimate.mean for estimate in estimates], label=label, **style)
        shares.fill_between(
            counts,
            [100 * estimate.low for estimate in estimates],
            [100 * estimate.high for estimate in estimates],
            color=COLOURS[seen],
            alpha=0.15,
            linewidth=0,
        )
        timed = [(count, lap) for count, lap in zip(counts, laps, strict=True) if lap is not None]
        times.plot([count for count, _ in timed], [lap for _, lap in timed], **style)
    shares.set(ylim=(-3, 103), ylabel="races finished, %")
    shares.legend(frameon=False)
    times.set(ylabel="lap time / scripted driver's")
    for axes in (shares, times):
        axes.set_xscale("log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.set_xlabel("circuits trained on")
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=DPI)


def draw_matrix(matrix: Mapping[str, Mapping[str, float]], file: Path) -> None:
    """Plot the matrix of kinds trained on by kinds driven on."""
    driven = list(next(iter(matrix.values())))
    values = [[row[kind] for kind in driven] for row in matrix.values()]
    figure = Drawing(figsize=(6, 1.4 + 0.5 * len(matrix)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(driven)), driven, rotation=30, ha="right")
    axes.set_yticks(range(len(matrix)), list(matrix))
    axes.set(xlabel="driven on, unseen", ylabel="trained on", title="races finished, %")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            axes.text(
                column, row, f"{100 * value:.0f}", ha="center", va="center", color="white" if value > 0.6 else "black"
            )
    figure.savefig(file, dpi=DPI)
