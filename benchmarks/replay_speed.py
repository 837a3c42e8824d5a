"""Cost of each replay: agent steps per second with one replayed step per fresh one, compared with the ideal.

    python benchmarks/replay_speed.py -c pong --set evaluation.minutes=0 --seconds 60 --repeat 3 --json speed.json

The ideal is cores / (t_environment + t_infer + (1 + ratio) t_train), each part measured alone, as in `kartrl bench`;
it excludes the work of the replay itself. It is measured anew before each window, as the machine's speed changes.
Methods alternate, so that conditions are equal; figures are medians.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from kartrl.config import Config, read
from kartrl.envs.worlds import load_world
from kartrl.hardware.devices import learner_device
from kartrl.hardware.machine import cores
from kartrl.launch import config_options
from kartrl.measuring.parts import PART_SECONDS, Parts, measure_parts, replayed_steps
from kartrl.measuring.windows import Window, train_window
from kartrl.metrics.tables import make_console
from kartrl.sizing.inspection import inspect_env
from kartrl.sizing.resolve import resolve

METHODS = ("none", "uniform", "prioritised", "attentive", "elite")


def settings_of(method: str) -> list[str]:
    """Overrides for a method: half of each batch is replayed, from soon after the start."""
    methods = method if method == "none" else f"queue {method}"
    return ["algorithm.name=impala", f"replay.methods={methods}", "replay.start=2000"]


def parts_of(files: list[str], overrides: list[str], seconds: float) -> tuple[Config, Parts, float]:
    """A configuration, its parts measured alone, and the number of replayed steps per fresh one."""
    config = load_world(read(files, overrides)).prepare()
    spec = inspect_env(config)
    config, sizes = resolve(config, spec, print)
    return config, measure_parts(config, spec, sizes, seconds), replayed_steps(config, sizes)


class Measurement(NamedTuple):
    """A window of training, and the ideal measured just before it."""

    window: Window
    ideal: float  # agent steps per second
    ratio: float  # replayed steps per fresh one
    parts: Parts


def row(method: str, measurements: list[Measurement]) -> str:
    """A row of the table."""
    windows = [measurement.window for measurement in measurements]
    rate = statistics.median(window.agent_steps_per_second for window in windows)
    ideal = statistics.median(measurement.ideal for measurement in measurements)
    share = statistics.median(each.window.agent_steps_per_second / each.ideal for each in measurements)
    idle = statistics.median(window.learner_idle for window in windows)
    replay = {name: statistics.median(window.replay[name] for window in windows) for name in windows[0].replay}
    times = ", ".join(f"{name} {1e3 * seconds:.1f}" for name, seconds in replay.items()) or "-"
    replayed = f"{measurements[0].ratio * rate:,.0f}"
    return f"| {method} | {rate:,.0f} | {replayed} | {ideal:,.0f} | {share:.2f} | {idle:.1%} | {times} |"


def measure(files: list[str], overrides: list[str], seconds: float, warm: float, progress: Progress) -> Measurement:
    """Measure the parts, then training."""
    config, parts, ratio = parts_of(files, overrides, min(PART_SECONDS, seconds / 10))
    ideal = parts.ideal(cores(), learner_device(config.system).type == "cuda", ratio)
    return Measurement(train_window(config_options(files, overrides), seconds, warm, progress), ideal, ratio, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-c", "--config", nargs="+", default=[], help="configuration files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seconds", type=float, default=60, help="of a window (default 60)")
    parser.add_argument("--warm", type=float, default=15, help="seconds before it (default 15)")
    parser.add_argument("--repeat", type=int, default=3, help="windows for each method (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    options = parser.parse_args()
    measured: dict[str, list[Measurement]] = {method: [] for method in options.methods}
    with Progress(console=make_console(stderr=True), transient=True) as progress:
        for _ in range(options.repeat):
            for method, measurements in measured.items():
                overrides = [*options.set, *settings_of(method)]
                measurements.append(measure(options.config, overrides, options.seconds, options.warm, progress))
    print("| replay | agent steps/s | replayed steps/s | ideal | share | learner idle | ms/batch |")
    print("|---|---|---|---|---|---|---|")
    for method, measurements in measured.items():
        print(row(method, measurements))
    if options.json:
        figures = {
            method: [
                each._asdict() | {"parts": each.parts._asdict(), "window": each.window._asdict()}
                for each in measurements
            ]
            for method, measurements in measured.items()
        }
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
