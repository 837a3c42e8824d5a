"""The results of a comparison: scores of the groups, and their tables in Markdown."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from kartrl.comparison import statistics
from kartrl.comparison.curves import Moment, reached, smooth
from kartrl.comparison.runs import EPISODE_METRICS, PLACES, TRAINING, ComparedRun, Groups
from kartrl.comparison.statistics import Estimate
from kartrl.config import settings
from kartrl.envs.worlds import load_world

SEED = 0  # of the bootstrap: the same runs give the same intervals
SIZES = {f"system.{key}" for key in ("device", "learners", "agents", "envs_per_agent", "max_policy_lag")}
SIZES |= {"system.training_batch_size", "algorithm.unroll_length", "model.precision"}  # and of minibatches
EPISODES = 100  # averaged to decide whether a value was reached


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


class Table(NamedTuple):
    """A table of text."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    sizes: Sequence[str] = ()  # of the runs, where they differ: a line each


def tables(comparison: Comparison) -> list[Table]:
    """Scores of each task, with sizes that differ, of all together, and probabilities of improvement."""
    parts = [_task_table(comparison, index) for index in range(len(comparison.tasks))]
    if len(comparison.tasks) > 1:
        parts.append(_common_table(comparison))
    if len(comparison.groups) > 1:
        parts.append(_improvements(comparison))
    return parts


def markdown(comparison: Comparison) -> str:
    """The `tables` in Markdown."""
    parts = []
    for table in tables(comparison):
        lines = "".join(f"- {line}\n" for line in table.sizes)
        sizes = f"\nSizes that differ:\n\n{lines}" if lines else ""
        parts.append(f"{table.title}\n\n{markdown_table(table.headings, table.rows)}{sizes}")
    return "\n".join(parts)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """What the tables of `markdown` hold, and the score of each run; docs/reference/json.md describes it."""
    return {
        "metric": comparison.metric,
        "by": comparison.by,
        "tasks": [_task_json(comparison, index) for index in range(len(comparison.tasks))],
        "scaled": [{"group": label, **interval(values)} for label, values in comparison.scaled().items()],
        "improvements": [
            {"higher": first, "lower": second, "probability": improvement(comparison, first, second).value}
            for first, second in itertools.permutations(comparison.groups, 2)
        ],
    }


def as_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each run: its task, its group, and what `as_json` says of it."""
    return [
        {"task": task["task"], "group": group["group"], **run}
        for task in as_json(comparison)["tasks"]
        for group in task["groups"]
        for run in group["runs"]
    ]


def _task_json(comparison: Comparison, index: int) -> dict[str, Any]:
    task, budget = comparison.tasks[index], list(comparison.budgets.values())[index]
    groups = []
    for label, members in comparison.groups.items():
        by_steps, by_minutes = comparison.scores[label][index], _scores(members[task], budget, by_steps=False)
        runs: list[dict[str, Any]] = [
            {"run": run.name, "seed": run.config.run.seed, "at_steps": float(one), "at_minutes": float(other)}
            for run, one, other in zip(members[task], by_steps, by_minutes, strict=True)
        ]
        if comparison.least is not None:
            for row, run in zip(runs, members[task], strict=True):
                moment = _reached(run, comparison)
                row["reached"] = None if moment is None else moment._asdict()
        groups.append(
            {"group": label, "at_steps": interval([by_steps]), "at_minutes": interval([by_minutes]), "runs": runs}
        )
    return {"task": task, **budget._asdict(), "groups": groups}


def interval(scores: Sequence[np.ndarray]) -> dict[str, float | None]:
    """The interquartile mean of scores and its 95 % interval, for JSON."""
    value, low, high = _iqm(scores)
    several = max(map(len, scores)) > 1
    return {"iqm": value, "low": low if several else None, "high": high if several else None}


def _reached(run: ComparedRun, comparison: Comparison) -> Moment | None:
    assert comparison.least is not None
    return reached(run.points, comparison.least, EPISODES if comparison.metric in EPISODE_METRICS else 1)


def _task_table(comparison: Comparison, index: int) -> Table:
    task, budget = comparison.tasks[index], list(comparison.budgets.values())[index]
    runs = [members[task] for members in comparison.groups.values()]
    uses = [use for use in (*PLACES, TRAINING) if any(use in run.finished for same in runs for run in same)]
    headings = [
        comparison.by,
        "runs",
        f"{comparison.metric} at {budget.steps:,.0f} steps",
        "lowest to highest",
        f"at {_in_minutes(budget.minutes)}",
    ]
    if comparison.least is not None:
        headings.append(f"reached {comparison.least:g}")
    word = load_world(runs[0][0].config).level_word
    headings += [
        f"each {word} finished in training" if use == TRAINING else f"all {use} {word}s of the evaluation finished"
        for use in uses
    ]
    rows = []
    for label, members in comparison.groups.items():
        by_steps = comparison.scores[label][index]
        by_minutes = _scores(members[task], budget, by_steps=False)
        row = [
            label,
            str(len(members[task])),
            estimate([by_steps]),
            f"{by_steps.min():.4g} to {by_steps.max():.4g}",
            estimate([by_minutes]),
        ]
        if comparison.least is not None:
            row.append(_moments([_reached(run, comparison) for run in members[task]]))
        rows.append(row + [_moments([run.finished.get(use) for run in members[task]]) for use in uses])
    return Table(f"{task}: interquartile means and 95 % intervals", headings, rows, _sizes(comparison, task))


def _sizes(comparison: Comparison, task: str) -> list[str]:
    """Sizes that differ between the runs on a task, by group where all of its runs have the same, else by run."""
    groups = {
        label: [(run.name, settings(run.config), settings(run.resumed)) for run in members[task]]
        for label, members in comparison.groups.items()
    }
    keys = {key: None for runs in groups.values() for _, begun, _ in runs for key in begun if _is_size(key)}
    lines = []
    for key in keys:
        where: defaultdict[str, list[str]] = defaultdict(list)
        for label, runs in groups.items():
            pairs = [(name, (str(begun.get(key, "auto")), str(now.get(key, "auto")))) for name, begun, now in runs]
            texts = [(name, ", then ".join(dict.fromkeys(pair))) for name, pair in pairs]
            if len({text for _, text in texts}) == 1:
                texts = [(label, texts[0][1])]
            for name, text in texts:
                where[text].append(name)
        where.pop("auto", None)  # without effect, or not known
        if key != comparison.by and len(where) > 1:
            parts = [f"{text} in {', '.join(names)}" for text, names in where.items()]
            lines.append(f"{key}: {'; '.join(parts)}")
    return lines


def _is_size(key: str) -> bool:
    return key in SIZES or key.endswith(".minibatch_size")


def _common_table(comparison: Comparison) -> Table:
    scaled = comparison.scaled()
    headings = [comparison.by, "runs", f"{comparison.metric}, scaled"]
    rows = [[label, str(sum(map(len, values))), estimate(values)] for label, values in scaled.items()]
    said = "0 is the lowest score of all these runs on a task, 1 the highest"
    return Table(f"All {len(comparison.tasks)} tasks, scaled: {said}", headings, rows)


def _improvements(comparison: Comparison) -> Table:
    most = {label: max(map(len, scores)) for label, scores in comparison.scores.items()}  # runs on a task
    rows = [
        [
            first,
            *(
                ""
                if first == second
                else _share(improvement(comparison, first, second), max(most[first], most[second]) > 1)
                for second in comparison.groups
            ),
        ]
        for first in comparison.groups
    ]
    title = "Probability that the row's run scores higher than the column's"
    return Table(title, [comparison.by, *comparison.groups], rows)


def improvement(comparison: Comparison, first: str, second: str) -> Estimate:
    """The probability that a run of the first group scores higher than one of the second."""
    scores = comparison.scores
    return statistics.probability_of_improvement(scores[first], scores[second], np.random.default_rng(SEED))


def _scores(runs: Sequence[ComparedRun], budget: Budget, by_steps: bool) -> np.ndarray:
    """The last point of each run's curve, or its first value if that comes later, float64 [N]."""
    last = curves(runs, budget, by_steps)[:, -1]
    first = [run.points.value[0] for run in runs]
    return np.where(np.isnan(last), first, last)


def curves(runs: Sequence[ComparedRun], budget: Budget, by_steps: bool) -> np.ndarray:
    """Each run's curve at evenly spaced steps or minutes of the budget, float64 [N, PLACES]."""
    if by_steps:
        return np.array([smooth(run.points.steps, run.points.value, budget.steps) for run in runs])
    return np.array([smooth(run.points.minutes, run.points.value, budget.minutes) for run in runs])


def _iqm(scores: Sequence[np.ndarray]) -> Estimate:
    return statistics.estimate_iqm(scores, np.random.default_rng(SEED))


def estimate(scores: Sequence[np.ndarray]) -> str:
    """The interquartile mean of scores and its 95 % interval, for a table."""
    value, low, high = _iqm(scores)
    return f"{value:.4g}" + (f" [{low:.4g}, {high:.4g}]" if max(map(len, scores)) > 1 else "")


def _share(measure: Estimate, several: bool) -> str:
    value, low, high = measure
    return f"{value:.0%}" + (f" [{low:.0%}, {high:.0%}]" if several else "")


def _moments(moments: Sequence[Moment | None]) -> str:
    """The medians; a run that never reached it counts as the latest."""
    count = sum(moment is not None for moment in moments)
    minutes, steps = map(median, zip(*(moment or Moment(math.inf, math.inf) for moment in moments), strict=True))
    counted = f"{steps / 1000:,.0f} k" if steps >= 1000 else f"{steps:.0f}"
    when = f"{_in_minutes(minutes)}, {counted} steps" if minutes < math.inf else "not reached"
    return f"{when} ({count} of {len(moments)})"


def _in_minutes(minutes: float) -> str:
    return f"{minutes:.1f} min" if minutes >= 1 else f"{minutes:.2g} min"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
