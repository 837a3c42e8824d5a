"""How training changes with one setting at a time: a table and a plot of an experiment's runs, by their name.

    kartrl compare --config benchmarks/ablation.toml
    python benchmarks/ablation.py logs/ablation/*__? -o docs/ablation.png

Runs are named NAME__SEED; each cell has a name's seeds in turn. Rewards are those of training, in thousandths per
trained step, and windows those of learning.py: 20,000 agent steps, from the first one on that reaches half of the run's
final reward. The plot shows a panel for each name, beside the first name's runs in grey.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from learning import WINDOW, Points, Steadiness, read, steadiness, window_means
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from time_to_drive import Reached
from time_to_drive import read as read_races

from kartrl.metrics import episodes_csv

LATE = 150_000  # agent steps from which on races count as late ones


class Trained(NamedTuple):
    """What one run showed."""

    rewards: Points
    steady: Steadiness | None  # None if it never drove
    first_race: Reached
    most_races: Reached
    finished: str  # fraction of late races
    policy_kl: float  # median over the run
    explained_variance: float  # median of the late part


def read_run(folder: Path) -> Trained:
    """Read a run.

    Raises:
        OSError: it has no files of episodes or scalars.
    """
    scalars = read(folder)
    rewards = scalars["losses/mean_reward"]
    races = read_races(folder / episodes_csv.NAME, start=0.0)
    late = [row.finished for row in episodes_csv.read(folder) if row.agent_steps >= LATE]
    explained = [value for _, steps, value in scalars["losses/explained_variance"] if steps >= LATE]
    return Trained(
        rewards,
        steadiness(rewards),
        *races,
        f"{statistics.fmean(late):.0%}" if late else "-",
        statistics.median(value for _, _, value in scalars["losses/policy_kl"]),
        statistics.median(explained) if explained else float("nan"),
    )


COLUMNS = (
    "changed",
    "first race, k steps",
    "45 of the last 50",
    "first good window ends",
    "windows under half",
    "longest stretch",
    "lowest window / final",
    "final reward",
    f"races finished from {LATE // 1000} k on",
    "KL of an update",
    "explained variance",
)


def row(name: str, runs: list[Trained]) -> list[str]:
    """A row of the table."""

    def thousands(steps: float) -> str:
        return "-" if steps == float("inf") else f"{steps / 1000:.0f}"

    def of_steady(text: Callable[[Steadiness], str]) -> str:
        return ", ".join(text(run.steady) if run.steady else "never good" for run in runs)

    return [
        name,
        ", ".join(thousands(run.first_race.steps) for run in runs),
        ", ".join(thousands(run.most_races.steps) for run in runs),
        ", ".join(thousands(run.steady.good_after if run.steady else float("inf")) for run in runs),
        of_steady(lambda steady: f"{steady.low} of {steady.windows}"),
        of_steady(lambda steady: str(steady.longest)),
        of_steady(lambda steady: f"{steady.lowest / steady.final:.2f}"),
        ", ".join(f"{1000 * run.steady.final:.0f}" if run.steady else "-" for run in runs),
        ", ".join(run.finished for run in runs),
        ", ".join(f"{run.policy_kl:.4f}" for run in runs),
        ", ".join(f"{run.explained_variance:.2f}" for run in runs),
    ]


def plot(groups: dict[str, list[Trained]], output: Path) -> None:
    """Draw each group's rewards by agent steps, with the first group's behind."""
    columns = 4
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.0 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    reference = next(iter(groups.values()))
    for axes, (name, runs) in itertools.zip_longest(panels, groups.items(), fillvalue=("", [])):
        if not name:
            axes.set_axis_off()
            continue
        for run, color in [(run, "0.8") for run in reference] + [(run, None) for run in runs]:
            windows = window_means(run.rewards)
            axes.plot(
                [(number + 1) * WINDOW / 1000 for number in windows],
                [1000 * mean for mean in windows.values()],
                color=color,
                linewidth=1,
            )
        axes.set_title(name, fontsize="medium")
    figure.supxlabel("thousands of agent steps")
    figure.supylabel("reward per trained step, thousandths")
    figure.savefig(output, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="their folders, named NAME__SEED")
    parser.add_argument("-o", "--output", type=Path, help="a PNG of the rewards")
    arguments = parser.parse_args()
    groups: dict[str, list[Trained]] = {}
    for folder in sorted(arguments.runs, key=lambda run: (not run.name.startswith("default__"), run.name)):
        name, separator, _ = folder.name.rpartition("__")
        if not separator:
            parser.error(f"{folder}: not named NAME__SEED")
        try:
            groups.setdefault(name, []).append(read_run(folder))
        except (OSError, statistics.StatisticsError) as error:
            parser.error(f"{folder}: not a run of some length ({error})")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name, runs in groups.items():
        print(f"| {' | '.join(row(name, runs))} |")
    if arguments.output:
        plot(groups, arguments.output)


if __name__ == "__main__":
    main()
