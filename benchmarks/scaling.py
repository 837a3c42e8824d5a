"""Throughput, policy lag and memory by the number of environments: a table and a chart.

    python benchmarks/scaling.py -c pong [--set section.key=value] -o docs/scaling.png

Trains once per number.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kartrl.config import read
from kartrl.launch import config_options
from kartrl.measuring.windows import Window, train_window
from kartrl.metrics.tables import make_console
from kartrl.options import add_config, config_files

NUMBERS = (1, 2, 4, 8, 16, 32)


def sizes_of(number: int) -> list[str]:
    """Settings for `number` environments, in up to two agents."""
    agents = min(2, number)
    return [f"system.agents={agents}", f"system.envs_per_agent={number // agents}"]


def chart(points: list[tuple[int, Window]], title: str, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    columns = (
        ("agent steps per second", [window.agent_steps_per_second for _, window in points]),
        ("mean policy lag, updates", [window.lag for _, window in points]),
        ("memory of all processes, GB", [window.memory_gb for _, window in points]),
    )
    for axis, (name, values) in zip(axes, columns, strict=True):
        axis.plot([number for number, _ in points], values, "o-")
        axis.set(xscale="log", xlabel="environments", title=name, ylim=(0, 1.1 * max(values)))
        axis.set_xticks([number for number, _ in points], [str(number) for number, _ in points])
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_config(parser)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm", type=float, default=8)
    parser.add_argument("-o", "--output", type=Path, default=Path("scaling.png"), metavar="FILE.png")
    options = parser.parse_args()
    console = make_console()
    files = config_files(options)
    points: list[tuple[int, Window]] = []
    for number in NUMBERS:
        config = read(files, options.set)
        overrides = [*options.set, *sizes_of(number), "evaluation.minutes=0"]
        arguments = config_options(files, overrides)
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as progress:
            window = train_window(arguments, options.seconds, options.warm, progress)
        points.append((number, window))
        rate = f"{window.agent_steps_per_second:,.0f} agent steps/s"
        console.print(
            f"{number:3} environments: {rate}, lag {window.lag:.2f}, {window.memory_gb:.2f} GB", highlight=False
        )
    chart(points, f"{config.environment.id}, {len(points)} trainings", options.output)


if __name__ == "__main__":
    main()
