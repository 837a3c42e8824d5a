"""Training returns on Airstriker beside Stable-Baselines3's, by minutes: a picture.

    kartrl train -c airstriker --minutes 4 --seed 1 --name air-1 --set evaluation.minutes=0    (and seeds 2 and 3)
    $HOME/peers/sb3/bin/python benchmarks/peers/sb3_airstriker.py --minutes 4 --seed 1 > peer-1.log    (likewise)
    python benchmarks/airstriker_curve.py air-1 air-2 air-3 --peer peer-?.log -o docs/airstriker.png

Each point is the mean score of the last 100 training episodes, whose actions are sampled.
"""

import argparse
import csv
import re
import statistics
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kartrl.run.folders import find_run

EPISODES = 100
LINE = re.compile(r"@B .*score=([\d.]+) seconds=([\d.]+)")
Curve = tuple[list[float], list[float]]  # minutes, scores


def of_run(run: Path) -> Curve:
    """The curve of a run of kartrl, from its episodes.csv."""
    with (run / "episodes.csv").open(encoding="utf-8") as file:
        rows = [(float(row["seconds"]), float(row["episodic_return"])) for row in csv.DictReader(file)]
    scores = [score for _, score in rows]
    means = [statistics.fmean(scores[max(0, end - EPISODES) : end]) for end in range(1, len(rows) + 1)]
    return [seconds / 60 for seconds, _ in rows], means


def of_peer(log: Path) -> Curve:
    """The curve of a peer, from what it printed."""
    found = LINE.findall(log.read_text(encoding="utf-8"))
    return [float(seconds) / 60 for _, seconds in found], [float(score) for score, _ in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="runs of kartrl")
    parser.add_argument("--peer", nargs="+", type=Path, default=[], help="what the peer printed, for each seed")
    parser.add_argument("-o", "--output", type=Path, required=True, help="picture to write")
    options = parser.parse_args()
    curves = {"kartrl": [of_run(find_run(run)) for run in options.runs], "SB3's PPO": [*map(of_peer, options.peer)]}
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="minutes of training", ylabel="mean score of 100 episodes")
    for colour, (name, seeds) in zip(("tab:blue", "tab:orange"), curves.items(), strict=True):
        for index, (minutes, scores) in enumerate(seeds):
            axes.plot(minutes, scores, color=colour, linewidth=1.2, label=name if index == 0 else None)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    FigureCanvasAgg(figure).print_png(options.output, metadata={"Software": None})


if __name__ == "__main__":
    main()
