"""What runs score on the levels that they were trained on, and on others: a table, and curves.

    for seed in 1 2 3; do kartrl train -c rapids --seed $seed --name rapids-$seed; done
    python benchmarks/seen_and_unseen.py logs/rapids-1 logs/rapids-2 logs/rapids-3 -o docs/rapids_curve.png

The table has the mean returns of greedy episodes at the end, and of as many with random actions; a curve is the mean of
the runs, in windows of equal numbers of agent steps: of training episodes, and of evaluations on unseen levels.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.config import read as read_config
from kartrl.envs.worlds import load_world
from kartrl.metrics import scalars_csv

WINDOWS = 20
CURVES = {"training episodes": "charts/episodic_return", "unseen, greedy": "evaluation/test_return"}


def greedy(run: Path, episodes: int) -> tuple[float, float, int]:
    """Mean returns on seen and on unseen levels, and the agent steps of training."""
    command = [sys.executable, "-m", "kartrl", "evaluate", str(run), "--episodes", str(episodes), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (found,) = json.loads(done.stdout)["checkpoints"]
    seen, unseen = (
        fmean(row["return"] for row in found["episodes"] if row["split"] == use) for use in ("train", "test")
    )
    return seen, unseen, found["agent_steps"]


def random_actions(run: Path, episodes: int) -> tuple[float, float]:
    """Mean returns of random actions on seen and on unseen levels."""
    world = load_world(read_config([run / "config.cfg"]))
    means = []
    for use in ("train", "test"):
        levels, returns = world.levels(use), []
        env = world.open_env(levels)
        env.action_space.seed(0)
        env.reset(seed=0)
        for level in levels * episodes:
            env.reset(options=world.reset_options(level))
            total, ended = 0.0, False
            while not ended:
                _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
                total, ended = total + float(reward), terminated or truncated
            returns.append(total)
        env.close()
        means.append(fmean(returns))
    return means[0], means[1]


def curve(run: Path, tag: str, last: int) -> np.ndarray:
    """Means of a scalar in windows of agent steps; NaN in those without one."""
    sums, counts = np.zeros(WINDOWS), np.zeros(WINDOWS)
    for row in scalars_csv.read(run):
        if row.tag == tag:
            window = min(row.agent_steps * WINDOWS // last, WINDOWS - 1)
            sums[window] += row.value
            counts[window] += 1
    return np.divide(sums, counts, out=np.full(WINDOWS, np.nan), where=counts > 0)


def draw(runs: list[Path], steps: int, chance: float, output: Path) -> None:
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    x = (np.arange(WINDOWS) + 1) * steps / WINDOWS / 1000
    for label, tag in CURVES.items():
        curves = np.array([curve(run, tag, steps) for run in runs])
        there = ~np.isnan(curves).all(axis=0)
        (line,) = axes.plot(x[there], np.nanmean(curves[:, there], axis=0), label=label)
        low, high = np.nanmin(curves[:, there], axis=0), np.nanmax(curves[:, there], axis=0)
        axes.fill_between(x[there], low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.axhline(chance, color="0.6", linewidth=0.8, label="random actions")
    axes.set(xlabel="thousand agent steps", ylabel="return", title=f"{len(runs)} seeds, mean and range")
    axes.legend(frameon=False)
    figure.savefig(output, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--episodes", type=int, default=2, help="episodes per level (default 2)")
    parser.add_argument("-o", "--output", type=Path, help="a PNG of the curves")
    options = parser.parse_args()
    print("| run | agent steps | seen | unseen |\n|---|---|---|---|")
    steps = 0
    for run in options.runs:
        seen, unseen, steps = greedy(run, options.episodes)
        print(f"| {run.name} | {steps:,} | {seen:.1f} | {unseen:.1f} |", flush=True)
    chance = random_actions(options.runs[0], options.episodes)
    print(f"| random actions | 0 | {chance[0]:.1f} | {chance[1]:.1f} |")
    if options.output:
        draw(options.runs, steps, chance[0], options.output)


if __name__ == "__main__":
    main()
