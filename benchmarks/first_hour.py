"""Draws how a run learns, early and late, with notes: docs/first_hour.png.

python benchmarks/first_hour.py logs/RUN -o docs/first_hour.png
"""

import argparse
import statistics
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.metrics import episodes_csv, scalars_csv

EARLY = 100_000  # agent steps in the left column
RACES = 25  # episodes in each mean
ENTROPY = "losses/entropy"


def note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float]) -> None:
    """Write beside a point of the curve, with an arrow to it."""
    arrow = {"arrowstyle": "->", "color": "0.4"}
    axes.annotate(text, at, offset, textcoords="offset points", fontsize=8, color="0.25", arrowprops=arrow)


def curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Agent steps and value of each curve: return of the agents' episodes, share of finished ones, entropy."""
    episodes = list(episodes_csv.read(run))
    last = [episodes[max(0, index - RACES) : index + 1] for index in range(len(episodes))]
    return {
        "return": [(some[-1].agent_steps, statistics.mean(one.episodic_return for one in some)) for some in last],
        "finished": [(some[-1].agent_steps, statistics.mean(one.finished or 0 for one in some)) for some in last],
        "entropy": [(row.agent_steps, row.value) for row in scalars_csv.read(run) if row.tag == ENTROPY],
    }


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("first_hour.png"))
    options = parser.parse_args()
    found = curves(options.run)
    figure = Figure(figsize=(10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    names = {"return": "return of an episode", "finished": "episodes finished", "entropy": "entropy (nats)"}
    for row, (name, label) in enumerate(names.items()):
        for column, title in enumerate((f"the first {EARLY:,} steps", "the whole run")):
            axes = figure.add_subplot(3, 2, 2 * row + column + 1)
            points = [(step, value) for step, value in found[name] if column or step <= EARLY]
            axes.plot(
                [step / 1000 for step, _ in points], [value for _, value in points], color="tab:blue", linewidth=1.5
            )
            axes.grid(alpha=0.3)
            if not column:
                axes.set_ylabel(label)
                early_notes(axes, name, points)
            if row == 0:
                axes.set_title(title)
            if row == 2:
                axes.set_xlabel("agent steps (thousands)")
    figure.savefig(options.output, dpi=110)


def early_notes(axes: Axes, name: str, points: list[tuple[int, float]]) -> None:
    """What to look at in the first minute."""
    first = next(((step / 1000, value) for step, value in points if value > 0), points[-1])
    if name == "return":
        note(axes, "off the road after a second,\nagain and again", (points[0][0] / 1000, points[0][1]), (150, 2))
    elif name == "finished":
        note(axes, "the first whole race", first, (25, 0))
    else:
        note(axes, "still trying everything", first, (30, -5))
        note(axes, "surer, and still exploring", (points[-1][0] / 1000, points[-1][1]), (-150, 5))


if __name__ == "__main__":
    main()
