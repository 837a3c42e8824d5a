"""Sample efficiency of training runs: a table and a plot from their `scalars.csv`.

    python run.py --set run.seed=1 --set run.minutes=15 --set run.name=seed1      (and so on for the other seeds)
    python benchmarks/learning.py logs/seed1 logs/seed2 logs/seed3 -o docs/learning.png

A training episode starts at any section and counts as a race after five laps from there. Evaluation acts greedily
from the start line, on the train circuits and on unseen ones.

The steadiness of a run is judged by training itself: the mean reward of trained steps in windows of 20,000 agent steps,
about ten seconds on two cores, beginning with the first window that reaches half of the run's final value (the mean of
the last tenth of its windows). Windows below half are counted, and the longest stretch of them.
"""

import argparse
import csv
import itertools
import statistics
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.metrics import scalars_csv

Points = list[tuple[float, int, float]]  # minutes, agent steps, value


def read(run: Path) -> dict[str, Points]:
    """Read a run's scalars: tag -> points."""
    tags: defaultdict[str, Points] = defaultdict(list)
    for row in scalars_csv.read(run):
        tags[row.tag].append((row.seconds / 60, row.agent_steps, row.value))
    return tags


def first(points: Points, least: float) -> str:
    """First time at which a value reached `least`: minutes and thousands of agent steps."""
    for minutes, steps, value in points:
        if value >= least:
            return f"{minutes:.1f} min, {steps / 1000:,.0f} k"
    return "not reached"


def merged(tags: dict[str, Points], prefix: str, suffix: str) -> Points:
    """All points of the tags `prefix*suffix`, sorted by time."""
    return sorted(
        point for tag, points in tags.items() if tag.startswith(prefix) and tag.endswith(suffix) for point in points
    )


def all_reach(tags: dict[str, Points], prefix: str) -> str:
    """First time by which each of these circuits had been finished in every episode of an evaluation."""
    circuits = {tag: points for tag, points in tags.items() if tag.startswith(prefix) and tag.endswith("/finished")}
    firsts = [
        next(((minutes, steps) for minutes, steps, value in points if value >= 1.0), None)
        for points in circuits.values()
    ]
    if not firsts or None in firsts:
        return "not reached"
    minutes, steps = max(point for point in firsts if point is not None)
    return f"{minutes:.1f} min, {steps / 1000:,.0f} k"


def last_share(tags: dict[str, Points], prefix: str, count: int = 3) -> str:
    """Fraction of races finished in the last `count` evaluations."""
    values = [
        value
        for tag, points in tags.items()
        if tag.startswith(prefix) and tag.endswith("/finished")
        for _, _, value in points[-count:]
    ]
    return f"{statistics.fmean(values):.0%}" if values else "-"


WINDOW = 20_000  # agent steps


class Steadiness(NamedTuple):
    """Windows of the training reward, from the first good one on."""

    final: float  # mean reward
    windows: int
    low: int  # below half of the final reward
    lowest: float  # mean reward of a window
    collapses: int  # stretches of such windows
    longest: int  # of these stretches, in windows
    good_after: int  # agent steps until the first good window ended

    def __str__(self) -> str:
        return f"{self.low} of {self.windows} windows low, {self.collapses} collapses, longest {self.longest}"


def window_means(points: Points) -> dict[int, float]:
    """Mean value in each window, by the window's number."""
    windows: dict[int, list[float]] = defaultdict(list)
    for _, steps, value in points:
        windows[steps // WINDOW].append(value)
    return {number: statistics.fmean(values) for number, values in sorted(windows.items())}


def steadiness(points: Points) -> Steadiness | None:
    """Steadiness from the points of `losses/mean_reward`; None if the run is too short."""
    means = window_means(points)
    if not means:
        return None
    final = statistics.fmean(list(means.values())[-max(1, len(means) // 10) :])
    first = next((number for number, mean in means.items() if mean >= final / 2), None)
    if first is None or final <= 0:
        return None
    from_first = [mean for number, mean in means.items() if number >= first]
    low = [mean < final / 2 for mean in from_first]
    stretches = [len(list(same)) for is_low, same in itertools.groupby(low) if is_low]
    longest, good_after = max(stretches, default=0), (first + 1) * WINDOW
    return Steadiness(final, len(low), sum(low), min(from_first), len(stretches), longest, good_after)


def summary(run: Path) -> list[str]:
    tags = read(run)
    speed = [value for _, _, value in tags["speed/agent_steps_per_second"][3:]]
    return [
        run.name,
        f"{statistics.median(speed):,.0f}" if speed else "-",
        first(merged(tags, "train_circuits/", "/lap_time"), 0.1),
        first(merged(tags, "train_circuits/", "/finished"), 1e-6),
        first(merged(tags, "evaluation_train/", "/lap_time"), 0.1),
        first(merged(tags, "evaluation_test/", "/lap_time"), 0.1),
        all_reach(tags, "evaluation_train/"),
        all_reach(tags, "evaluation_test/"),
        last_share(tags, "evaluation_train/"),
        last_share(tags, "evaluation_test/"),
        str(steadiness(tags["losses/mean_reward"]) or "-"),
    ]


COLUMNS = [
    "run",
    "agent steps/s",
    "first lap, agents",
    "first race, agents",
    "first lap, train",
    "first lap, unseen",
    "race on every train circuit",
    "race on the unseen",
    "finished at the end, train",
    "unseen",
    "reward of training from the first good window of 20,000 steps on",
]


PANELS = (
    ("losses/mean_reward", "mean reward of a trained step", None),
    ("charts/progress", "laps of a race, agents in training", 5.0),
    ("evaluation/test_progress", "laps of a race, unseen, each evaluation", 5.0),
    ("charts/lap_time", "seconds per lap, agents in training", None),
)


THINNED = (
    "losses/mean_reward",
    "losses/entropy",
    "losses/policy_kl",
    "losses/explained_variance",
    "losses/gradients_clipped",
    "lag/mean",
    "lag/max",
    "charts/finished",
    "evaluation/train_finished",
    "evaluation/test_finished",
)


def write_thinned(runs: list[Path], output: Path) -> None:
    """Write window means of the scalars that show how steady a run was; empty if a window has no point."""
    with output.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("run", "agent_steps", *THINNED))
        for run in runs:
            tags = read(run)
            means = [window_means(tags[tag]) for tag in THINNED]
            for number in sorted(set().union(*means)):
                values = (f"{mean[number]:.4g}" if number in mean else "" for mean in means)
                rows.writerow((run.name, (number + 1) * WINDOW, *values))


def plot(runs: list[Path], output: Path) -> None:
    scalars = {run: read(run) for run in runs}
    panels = [panel for panel in PANELS if any(scalars[run][panel[0]] for run in runs)]  # some are never evaluated
    if not panels:
        raise SystemExit(f"learning.py: nothing to draw in {', '.join(map(str, runs))}: no training rewards yet")
    figure = Figure(figsize=(3.5 * len(panels), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (key, title, most) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for run in runs:
            points = scalars[run][key]
            marker = "." if len(points) < 30 else None
            axes.plot(
                [minutes for minutes, _, _ in points],
                [value for _, _, value in points],
                marker=marker,
                linewidth=1,
                label=run.name,
            )
        if most is not None:
            axes.axhline(most, color="0.7", linewidth=0.8)
            axes.set_ylim(0, most + 0.3)
        axes.set(title=title, xlabel="minutes of training")
        axes.set_xlim(left=0)
        axes.legend(frameon=False)
    figure.savefig(output, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="a PNG of the curves")
    parser.add_argument("--thinned", type=Path, metavar="FILE", help="a CSV of the scalars, thinned to the windows")
    arguments = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for run in arguments.runs:
        print(f"| {' | '.join(summary(run))} |")
    if arguments.output:
        plot(arguments.runs, arguments.output)
    if arguments.thinned:
        write_thinned(arguments.runs, arguments.thinned)


if __name__ == "__main__":
    main()
