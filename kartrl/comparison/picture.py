"""The picture of a comparison: curves, interquartile means, performance profiles, probabilities of improvement."""

import io
import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context, rcParams
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
LONGEST, SHORT = 24, 14  # characters of a group's name
TICKS = 5  # at most, of scores: more numbers such as 0.0225 would overlap
MOST_PAIRS = 6  # drawn with intervals; the pairs of more than four groups are shown as a matrix

PLAIN: dict[Any, Any] = {"text.parse_math": False}  # a dollar sign in a name is none
INK = "#7f7e7d"  # stands for the colour of a page's text

Panel = Callable[[Axes], None]
Styles = Mapping[str, Mapping[str, Any]]  # group -> colour and line


def draw(comparison: Comparison, file: Path) -> None:
    """Draw a PNG; see `make_figure`.

    Raises:
        OSError: it cannot be written.
    """
    save_png(make_figure(comparison), file)


def save_png(figure: Figure, file: Path, **options: Any) -> None:
    """Write a figure; the file is closed even if Ctrl-C comes, after which Pillow leaves those that it opens open.

    Args:
        options: of `Figure.savefig`; by default 110 pixels per inch.

    Raises:
        OSError: it cannot be written.
    """
    with file.open("wb") as output:
        figure.savefig(output, format="png", **{"dpi": 110, **options})


def make_figure(comparison: Comparison) -> Figure:
    """For each task, the curves over steps and minutes; below, interquartile means, profiles, and improvements."""
    rows, measures = curve_panels(comparison), measure_panels(comparison)
    longest = max(len(_short(label)) for label in comparison.groups)
    width = 13.5 + 0.4 * max(0, longest - SHORT)  # or the names would leave no space for the axes
    figure = Figure(figsize=(width, 3.8 * (len(rows) + 1)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(rows) + 1, 6)
    with rc_context(PLAIN):
        for row, panels in enumerate(rows):
            for column, panel in enumerate(panels):
                panel(axes := figure.add_subplot(grid[row, 3 * column : 3 * column + 3]))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, title=comparison.by)
        span = 6 // len(measures)
        for column, panel in enumerate(measures):
            panel(figure.add_subplot(grid[-1, span * column : span * (column + 1)]))
    return figure


def curve_panels(comparison: Comparison) -> list[tuple[Panel, Panel]]:
    """For each task, its curves over steps and over minutes."""

    def draws(task: str, by_steps: bool) -> Panel:
        return lambda axes: _draw_curves(axes, comparison, task, by_steps, styles)

    styles = _styles(comparison)
    return [(draws(task, by_steps=True), draws(task, by_steps=False)) for task in comparison.tasks]


def measure_panels(comparison: Comparison) -> list[Panel]:
    """Interquartile means, performance profiles and, of several groups, probabilities of improvement."""
    styles, pairs = _styles(comparison), list(itertools.combinations(comparison.groups, 2))
    panels: list[Panel] = [
        lambda axes: _draw_means(axes, comparison, styles),
        lambda axes: _draw_profiles(axes, comparison, styles),
    ]
    if len(pairs) > MOST_PAIRS:
        panels.append(lambda axes: _draw_improvement_matrix(axes, comparison))
    elif pairs:
        panels.append(lambda axes: _draw_improvements(axes, comparison, pairs))
    return panels


def as_svg(panel: Panel, number: int, legend: str | None = None) -> str:
    """A panel as an SVG element to put into a page, whose colour of text it takes; the same each time.

    Args:
        number: differs between the elements of a page, or their parts would have the same names.
        legend: title of its legend; None: it has none.
    """
    inks = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    own: dict[Any, Any] = dict.fromkeys(inks, INK) | {"svg.fonttype": "none", "svg.hashsalt": f"kartrl {number}"}
    with rc_context(PLAIN | own):
        figure = Figure(figsize=(6.2, 3.6), layout="constrained")
        panel(axes := figure.add_subplot())
        if legend is not None:
            axes.legend(frameon=False, title=legend)
        file = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # the versions and the time of drawing
        figure.savefig(file, format="svg", transparent=True, metadata=metadata)
    text = re.sub(r'<g id="[^"]*">', "<g>", file.getvalue())  # other elements have the same
    return text[text.index("<svg") :].replace(INK, "currentColor")


def _styles(comparison: Comparison) -> Styles:
    return {label: _style(number) for number, label in enumerate(comparison.groups)}


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
        _draw_band(axes, x, band, styles, label, f"{_short(label)} ({len(members[task])})")
    axes.set(
        title=task,
        xlabel="agent steps" if by_steps else "minutes of training",
        ylabel=comparison.metric,
        xlim=(0, x[-1] or None),  # a run may end before its clock's first hundredth
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
    axes.set_yticklabels(map(_short, scaled))
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
    ink = rcParams["text.color"]
    for place, (first, second) in enumerate(pairs):
        value, low, high = improvement(comparison, first, second)
        axes.plot([low, high], [place, place], color=ink, linewidth=9, alpha=0.4, solid_capstyle="butt")
        axes.plot([value], [place], color=ink, marker="|", markersize=14, markeredgewidth=2)
    axes.axvline(0.5, color="0.7", linewidth=0.8)
    axes.set(
        title="probability of improvement",
        xlabel="P(first > second)",
        xlim=(-0.03, 1.03),
        yticks=range(len(pairs)),
        ylim=(len(pairs) - 0.5, -0.5),
    )
    axes.set_yticklabels([_above(_short(first), _short(second)) for first, second in pairs])


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
    axes.set_xticklabels(map(_short, groups), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticklabels(map(_short, groups))


def _short(name: str) -> str:
    """A group's name, cut off so that there is space beside it."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."


def _above(first: str, second: str) -> str:
    return f"{first} > {second}" if len(first + second) < LONGEST else f"{first} >\n{second}"


def _scale(comparison: Comparison) -> str:
    return comparison.metric if len(comparison.tasks) == 1 else f"{comparison.metric}, scaled"
