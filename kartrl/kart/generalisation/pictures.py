"""Plots of the benchmark's report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.comparison.picture import save_png
from kartrl.kart.generalisation.results import Row
from kartrl.kart.generalisation.splits import SEEN

COLOURS = {True: "#3b6fb6", False: "#d1603d"}  # trained on, unseen
LAP_TIME = "lap time / scripted driver's"


def draw_table(rows: Sequence[Row], file: Path, title: str) -> None:
    """Plot the mean and the interval of each row."""
    figure, (shares, times) = _make_figure(10, 1.3 + 0.36 * len(rows), 2)
    for place, row in enumerate(rows):
        for axes, estimate, scale in ((shares, row.finished, 100), (times, row.lap_time, 1)):
            if estimate is not None:
                value, *bounds = (scale * number for number in estimate)
                colour = COLOURS[row.set == SEEN]
                axes.plot(bounds, [place, place], color=colour, linewidth=2, alpha=0.5)
                axes.plot([value], [place], "o" if row.set == SEEN else "D", color=colour, markersize=7)
    shares.set_yticks(range(len(rows)), [f"{row.split}: {row.set} ({row.circuits})" for row in rows])
    shares.set(xlim=(-3, 103), xlabel="races finished, %")
    times.set(yticks=[], xlabel=LAP_TIME)
    times.axvline(1, color="0.7", linewidth=0.8)
    for axes in (shares, times):
        axes.set_ylim(len(rows) - 0.4, -0.6)
    figure.suptitle(title, fontsize=11)
    save_png(figure, file)


def draw_curve(curve: Mapping[int, Sequence[Row]], file: Path) -> None:
    """Plot races finished and lap times over the number of training circuits, on these and on unseen ones."""
    figure, (shares, times) = _make_figure(10, 4, 2)
    for number, label in enumerate(("trained on", "unseen")):
        rows = {count: sets[number] for count, sets in curve.items()}
        style: dict[str, Any] = {"color": COLOURS[number == 0], "marker": "oD"[number], "markersize": 5, "label": label}
        shares.plot([*rows], [100 * row.finished.value for row in rows.values()], **style)
        low, high = ([100 * row.finished[side] for row in rows.values()] for side in (1, 2))
        shares.fill_between([*rows], low, high, color=style["color"], alpha=0.15, linewidth=0)
        timed = {count: row.lap_time.value for count, row in rows.items() if row.lap_time is not None}
        times.plot([*timed], [*timed.values()], **style)
    shares.set(ylim=(-3, 103), ylabel="races finished, %")
    shares.legend(frameon=False)
    times.set(ylabel=LAP_TIME)
    for axes in (shares, times):
        axes.set(xscale="log", xlabel="circuits trained on")
        axes.set_xticks([*curve], [str(count) for count in curve])
        axes.minorticks_off()
    save_png(figure, file)


def draw_matrix(matrix: Mapping[str, Mapping[str, float]], file: Path) -> None:
    """Plot the matrix of kinds trained on by kinds driven on."""
    driven = list(next(iter(matrix.values())))
    figure, (axes,) = _make_figure(6, 1.4 + 0.5 * len(matrix), 1)
    axes.grid(visible=False)
    axes.imshow([[*row.values()] for row in matrix.values()], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(driven)), driven, rotation=30, ha="right")
    axes.set_yticks(range(len(matrix)), list(matrix))
    axes.set(xlabel="driven on, unseen", ylabel="trained on", title="races finished, %")
    for row, line in enumerate(matrix.values()):
        for column, value in enumerate(line.values()):
            colour = "white" if value > 0.6 else "black"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour)
    save_png(figure, file)


def _make_figure(width: float, height: float, number: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure with this many axes side by side, the first of which is wider."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(1, number, squeeze=False, width_ratios=(3, 2)[:number])[0]
    for axes in every:
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    return figure, every
