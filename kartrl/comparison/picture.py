"""The picture of a comparison: curves, interquartile means, performance profiles, probabilities of improvement."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.comparison import statistics
from kartrl.comparison.curves import places
from kartrl.comparison.report import SEED, Comparison, curves, improvement

THRESHOLDS = 101  # of a performance profile
COLOURS = colormaps["tab10"]
LINES = ("-", "--", ":", "-.")  # each for as many groups as there are colours
BAND = 0.2  # opacity of the intervals of up to five groups; more would hide each other
TICKS = 5  # at most, of scores: more numbers such as 0.0225 would overlap
MOST_PAIRS = 6  # drawn with intervals; the pairs of more than four groups are shown as a matrix

Styles = Mapping[str, Mapping[str, Any]]  # group -> colour and line


def draw(comparison: Comparison, file: Path) -> None:
    """Draw a PNG; see `make_figure`.

    Raises:
        OSError: it cannot be written.
    """
    make_figure(comparison).savefig(file, dpi=110, format="png")


def make_figure(comparison: Comparison) -> Figure:
    """For each task, the curves over steps and minutes; below, interquartile means, profiles, and improvements."""
    tasks, groups = comparison.tasks, list(comparison.groups)
    figure = Figure(figsize=(13.5, 3.8 * (len(tasks) + 1)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(tasks) + 1, 6)
    styles = {label: _style(number) for number, label in enumerate(groups)}
    for row, task in enumerate(tasks):
        for column, by_steps in enumerate((True, False)):
            axes = figure.add_subplot(grid[row, 3 * column : 3 * column + 3])
            _draw_curves(axes, comparison, task, by_steps, styles)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, title=comparison.by)
    width = 2 if len(groups) > 1 else 3
    _draw_means(figure.add_subplot(grid[-1, :width]), comparison, styles)
    _draw_profiles(figure.add_subplot(grid[-1, width : 2 * width]), comparison, styles)
    if len(groups) > 1:
        axes = figure.add_subplot(grid[-1, 4:])
        pairs = list(itertools.combinations(groups, 2))
        if len(pairs) > MOST_PAIRS:
            _draw_improvement_matrix(axes, comparison)
        else:
            _draw_improvements(axes, comparison, pairs)
    return figure


def _style(number: int) -> dict[str, Any]:
    """Colour and line of a group; no two of the first forty are alike."""
    return {"color": COLOURS(number % COLOURS.N), "linestyle": LINES[number // COLOURS.N % len(LINES)]}


def _draw_band(axes: Axes, x: np.ndarray, band: statistics.Band, styles: Styles, group: str, label: str = "") -> None:
    """Draw a group's values and their intervals; `label` names it in the legend."""
    axes.plot(x, band.value, **styles[group], linewidth=1.5, label=label)
    opacity = min(BAND, 1 / len(styles))
    axes.fill_between(x, band.low, band.high, color=styles[group]["color"], alpha=opacity, linewidth=0)


def _draw_curves(axes: Axes, comparison: Comparison, task: str, by_steps: bool, styles: Styles) -> None:
    budget = comparison.budgets[task]
    x = places(budget.steps if by_steps else budget.minutes)
    for label, members in comparison.groups.items():
        band = statistics.mean_band(curves(members[task], budget, by_steps), np.random.default_rng(SEED))
        _draw_band(axes, x, band, styles, label, f"{label} ({len(members[task])})")
    axes.set(
        title=task,
        xlabel="agent steps" if by_steps else "minutes of training",
        ylabel=comparison.metric,
        xlim=(0, x[-1]),
    )


def _draw_means(axes: Axes, comparison: Comparison, styles: Styles) -> None:
    scaled = comparison.scaled()
    for place, (label, scores) in enumerate(scaled.items()):
        value, low, high = statistics.estimate_iqm(scores, np.random.default_rng(SEED))
        colour = styles[label]["color"]
        axes.plot([low, high], [place, place], color=colour, linewidth=9, alpha=0.4, solid_capstyle="butt")
        axes.plot([value], [place], color=colour, marker="|", markersize=14, markeredgewidth=2)
    axes.set(
        title="interquartile mean", xlabel=_scale(comparison), yticks=range(len(scaled)), ylim=(len(scaled) - 0.5, -0.5)
    )
    axes.set_yticklabels(scaled)
    axes.locator_params("x", nbins=TICKS)


def _draw_profiles(axes: Axes, comparison: Comparison, styles: Styles) -> None:
    scaled = comparison.scaled()
    everything = np.concatenate([score for scores in scaled.values() for score in scores])
    margin = 0.05 * (np.ptp(everything) or 1.0)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, THRESHOLDS)
    for label, scores in scaled.items():
        band = statistics.performance_profile(scores, thresholds, np.random.default_rng(SEED))
        _draw_band(axes, thresholds, band, styles, label)
    axes.set(title="performance profile", xlabel=_scale(comparison), ylabel="share of runs above", ylim=(-0.03, 1.03))
    axes.locator_params("x", nbins=TICKS)


def _draw_improvements(axes: Axes, comparison: Comparison, pairs: list[tuple[str, str]]) -> None:
    for place, (first, second) in enumerate(pairs):
        value, low, high = improvement(comparison, first, second)
        axes.plot([low, high], [place, place], color="0.4", linewidth=9, alpha=0.4, solid_capstyle="butt")
        axes.plot([value], [place], color="0.2", marker="|", markersize=14, markeredgewidth=2)
    axes.axvline(0.5, color="0.7", linewidth=0.8)
    axes.set(
        title="probability of improvement",
        xlabel="P(first > second)",
        xlim=(-0.03, 1.03),
        yticks=range(len(pairs)),
        ylim=(len(pairs) - 0.5, -0.5),
    )
    axes.set_yticklabels([f"{first} > {second}" for first, second in pairs])


def _draw_improvement_matrix(axes: Axes, comparison: Comparison) -> None:
    """The same as numbers in per cent, without intervals: those are in the table."""
    groups = list(comparison.groups)
    values = np.full((len(groups), len(groups)), np.nan)
    for (row, first), (column, second) in itertools.combinations(enumerate(groups), 2):
        values[row, column] = improvement(comparison, first, second).value
        values[column, row] = 1 - values[row, column]  # ties count one half
    for row, column in itertools.permutations(range(len(groups)), 2):
        dark = abs(values[row, column] - 0.5) > 0.3
        text = f"{100 * values[row, column]:.0f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    axes.imshow(values, cmap="RdBu", vmin=0, vmax=1, aspect="auto")
    axes.set(title="P(row > column), %", xticks=range(len(groups)), yticks=range(len(groups)))
    axes.set_xticklabels(groups, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticklabels(groups)


def _scale(comparison: Comparison) -> str:
    return comparison.metric if len(comparison.tasks) == 1 else f"{comparison.metric}, scaled"
