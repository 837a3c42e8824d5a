"""The results of a comparison: scores of the groups, their table in Markdown, and a picture."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.comparison import statistics
from kartrl.comparison.curves import Moment, places, reached, smooth
from kartrl.comparison.runs import PLACES, RETURN, TRAINING, ComparedRun, Groups
from kartrl.comparison.statistics import Estimate
from kartrl.envs.worlds import load_world

SEED = 0  # of the bootstrap: the same runs give the same intervals
THRESHOLDS = 101  # of a performance profile
EPISODES = 100  # averaged to decide whether a value was reached
COLOURS = colormaps["tab10"]


class Budget(NamedTuple):
    """The agent steps and minutes that all runs on a task have reached."""

    steps: float
    minutes: float


class Comparison(NamedTuple):
    """Groups of runs and their scores."""

    groups: Groups
    metric: str
    by: str
    budgets: dict[str, Budget]  # of each task
    scores: dict[str, list[np.ndarray]]  # group -> task -> float64 [N]: each run's score within the task's steps
    least: float | None = None  # value of the metric; when it was reached is reported too

    @property
    def tasks(self) -> list[str]:
        """The tasks, in order."""
        return list(self.budgets)

    def scaled(self) -> dict[str, list[np.ndarray]]:
        """The scores; with several tasks on one scale: 0 is the lowest score of all runs on a task, 1 the highest."""
        if len(self.tasks) == 1:
            return self.scores
        everything = [np.concatenate(values) for values in zip(*self.scores.values(), strict=True)]
        return {
            label: [
                (value - whole.min()) / (np.ptp(whole) or 1.0) for value, whole in zip(values, everything, strict=True)
            ]
            for label, values in self.scores.items()
        }


def make_comparison(groups: Groups, metric: str, by: str, least: float | None = None) -> Comparison:
    """Score all runs by their means over the last tenth of the budget that all runs on their task have reached."""
    budgets = {}
    for task in next(iter(groups.values())):
        runs = [run.points for members in groups.values() for run in members[task]]
        budgets[task] = Budget(min(run.steps.max() for run in runs), min(run.minutes.max() for run in runs))
    scores = {
        label: [_scores(members[task], budgets[task], by_steps=True) for task in budgets]
        for label, members in groups.items()
    }
    return Comparison(groups, metric, by, budgets, scores, least)


def markdown(comparison: Comparison) -> str:
    """Tables: the scores of each task and of all together, and the probabilities of improvement."""
    parts = [_task_table(comparison, index) for index in range(len(comparison.tasks))]
    if len(comparison.tasks) > 1:
        parts.append(_common_table(comparison))
    if len(comparison.groups) > 1:
        parts.append(_improvements(comparison))
    return "\n".join(parts)


def _task_table(comparison: Comparison, index: int) -> str:
    task, budget = comparison.tasks[index], list(comparison.budgets.values())[index]
    runs = [members[task] for members in comparison.groups.values()]
    uses = [use for use in (*PLACES, TRAINING) if any(use in run.finished for same in runs for run in same)]
    headings = [
        comparison.by,
        "runs",
        f"{comparison.metric} at {budget.steps:,.0f} steps",
        "lowest to highest",
        f"at {budget.minutes:.1f} min",
    ]
    if comparison.least is not None:
        headings.append(f"reached {comparison.least:g}")
    word = load_world(runs[0][0].config).level_word
    headings += [
        f"each {word} finished in training" if use == TRAINING else f"all {use} {word}s finished" for use in uses
    ]
    rows = []
    for label, members in comparison.groups.items():
        by_steps = comparison.scores[label][index]
        by_minutes = _scores(members[task], budget, by_steps=False)
        row = [
            label,
            str(len(members[task])),
            _estimate([by_steps]),
            f"{by_steps.min():.4g} to {by_steps.max():.4g}",
            _estimate([by_minutes]),
        ]
        if comparison.least is not None:
            count = EPISODES if comparison.metric == RETURN else 1
            row.append(_moments([reached(run.points, comparison.least, count) for run in members[task]]))
        rows.append(row + [_moments([run.finished.get(use) for run in members[task]]) for use in uses])
    return f"{task}: interquartile means and 95 % intervals\n\n{_table(headings, rows)}"


def _common_table(comparison: Comparison) -> str:
    scaled = comparison.scaled()
    headings = [comparison.by, "runs", f"{comparison.metric}, scaled"]
    rows = [[label, str(sum(map(len, values))), _estimate(values)] for label, values in scaled.items()]
    said = "0 is the lowest score of all these runs on a task, 1 the highest"
    return f"All {len(comparison.tasks)} tasks, scaled: {said}\n\n{_table(headings, rows)}"


def _improvements(comparison: Comparison) -> str:
    rows = [
        [
            first,
            *(
                "" if first == second else _share(_improvement(comparison, first, second))
                for second in comparison.groups
            ),
        ]
        for first in comparison.groups
    ]
    return (
        "Probability that the row's run scores higher than the column's\n\n"
        f"{_table([comparison.by, *comparison.groups], rows)}"
    )


def _improvement(comparison: Comparison, first: str, second: str) -> Estimate:
    scores = comparison.scores
    return statistics.probability_of_improvement(scores[first], scores[second], np.random.default_rng(SEED))


def _scores(runs: Sequence[ComparedRun], budget: Budget, by_steps: bool) -> np.ndarray:
    """The last point of each run's curve, or its first value if that comes later, float64 [N]."""
    curves = _curves(runs, budget, by_steps)
    first = [run.points.value[0] for run in runs]
    return np.where(np.isnan(curves[:, -1]), first, curves[:, -1])


def _curves(runs: Sequence[ComparedRun], budget: Budget, by_steps: bool) -> np.ndarray:
    """float64 [N, PLACES], over steps or minutes."""
    if by_steps:
        return np.array([smooth(run.points.steps, run.points.value, budget.steps) for run in runs])
    return np.array([smooth(run.points.minutes, run.points.value, budget.minutes) for run in runs])


def _estimate(scores: Sequence[np.ndarray]) -> str:
    value, low, high = statistics.estimate_iqm(scores, np.random.default_rng(SEED))
    return f"{value:.4g}" + (f" [{low:.4g}, {high:.4g}]" if max(map(len, scores)) > 1 else "")


def _share(estimate: Estimate) -> str:
    value, low, high = estimate
    return f"{value:.0%} [{low:.0%}, {high:.0%}]"


def _moments(moments: Sequence[Moment | None]) -> str:
    """The median; a run that never reached it counts as the latest."""
    count = sum(moment is not None for moment in moments)
    minutes, steps = median_low([moment or Moment(math.inf, math.inf) for moment in moments])
    when = f"{minutes:.1f} min, {steps / 1000:,.0f} k steps" if minutes < math.inf else "not reached"
    return f"{when} ({count} of {len(moments)})"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw(comparison: Comparison, file: Path) -> None:
    """Draw a PNG: for each task the curves over steps and minutes; interquartile means, profiles, and improvements.

    Raises:
        OSError: it cannot be written.
    """
    tasks, several = comparison.tasks, len(comparison.groups) > 1
    figure = Figure(figsize=(12, 3.6 * (len(tasks) + 1)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(tasks) + 1, 6)
    colours = {label: COLOURS(number % 10) for number, label in enumerate(comparison.groups)}
    for row, task in enumerate(tasks):
        for column, by_steps in enumerate((True, False)):
            axes = figure.add_subplot(grid[row, 3 * column : 3 * column + 3])
            _draw_curves(axes, comparison, task, by_steps, colours)
    width = 2 if several else 3
    _draw_means(figure.add_subplot(grid[-1, :width]), comparison, colours)
    _draw_profiles(figure.add_subplot(grid[-1, width : 2 * width]), comparison, colours)
    if several:
        _draw_improvements(figure.add_subplot(grid[-1, 4:]), comparison)
    figure.savefig(file, dpi=110, format="png")


def _draw_curves(axes: Axes, comparison: Comparison, task: str, by_steps: bool, colours: Mapping[str, object]) -> None:
    budget = comparison.budgets[task]
    x = places(budget.steps if by_steps else budget.minutes)
    for label, members in comparison.groups.items():
        band = statistics.mean_band(_curves(members[task], budget, by_steps), np.random.default_rng(SEED))
        axes.plot(x, band.value, color=colours[label], linewidth=1.5, label=f"{label} ({len(members[task])})")
        axes.fill_between(x, band.low, band.high, color=colours[label], alpha=0.2, linewidth=0)
    axes.set(
        title=task,
        xlabel="agent steps" if by_steps else "minutes of training",
        ylabel=comparison.metric,
        xlim=(0, x[-1]),
    )
    axes.legend(frameon=False, title=comparison.by)


def _draw_means(axes: Axes, comparison: Comparison, colours: Mapping[str, object]) -> None:
    scaled = comparison.scaled()
    for place, (label, scores) in enumerate(scaled.items()):
        value, low, high = statistics.estimate_iqm(scores, np.random.default_rng(SEED))
        axes.plot([low, high], [place, place], color=colours[label], linewidth=9, alpha=0.4, solid_capstyle="butt")
        axes.plot([value], [place], color=colours[label], marker="|", markersize=14, markeredgewidth=2)
    axes.set(
        title="interquartile mean", xlabel=_scale(comparison), yticks=range(len(scaled)), ylim=(len(scaled) - 0.5, -0.5)
    )
    axes.set_yticklabels(scaled)


def _draw_profiles(axes: Axes, comparison: Comparison, colours: Mapping[str, object]) -> None:
    scaled = comparison.scaled()
    everything = np.concatenate([score for scores in scaled.values() for score in scores])
    margin = 0.05 * (np.ptp(everything) or 1.0)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, THRESHOLDS)
    for label, scores in scaled.items():
        band = statistics.performance_profile(scores, thresholds, np.random.default_rng(SEED))
        axes.plot(thresholds, band.value, color=colours[label], linewidth=1.5)
        axes.fill_between(thresholds, band.low, band.high, color=colours[label], alpha=0.2, linewidth=0)
    axes.set(title="performance profile", xlabel=_scale(comparison), ylabel="share of runs above", ylim=(-0.03, 1.03))


def _draw_improvements(axes: Axes, comparison: Comparison) -> None:
    pairs = list(itertools.combinations(comparison.groups, 2))
    for place, (first, second) in enumerate(pairs):
        value, low, high = _improvement(comparison, first, second)
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


def _scale(comparison: Comparison) -> str:
    return comparison.metric if len(comparison.tasks) == 1 else f"{comparison.metric}, scaled"
