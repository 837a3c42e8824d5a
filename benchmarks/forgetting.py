"""How much is forgotten about asphalt while learning planks: without a replay, with a uniform one, and with CLEAR.

    python benchmarks/forgetting.py --steps 100000 --seeds 1 2 3 4 5 --folder logs/forgetting

For each seed one policy is trained on asphalt, with a uniform replay that holds all of it (`replay.save`). From there,
with its weights, optimizer and replay, each method trains for as many steps on a second ground, planks or ice; its
replay then holds both. Policies are evaluated on both before and after. The learning rate is constant, since the second
ground continues where asphalt ended.

The same command resumes an interrupted benchmark. Results are in FOLDER: forgetting.md and forgetting.json.
"""

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from kartrl.comparison.statistics import mean_band
from kartrl.comparison.training import train_to_end
from kartrl.config import Run
from kartrl.files import write_whole
from kartrl.kart.generalisation.driving import GAME, measure
from kartrl.kart.generalisation.results import circuit_measures
from kartrl.kart.selection import circuits_of
from kartrl.launch import config_options
from kartrl.metrics.tables import make_console

CLEAR = ("clear.policy_cost=0.01", "clear.value_cost=0.005")
METHODS = {
    "none": ("replay.methods=none",),
    "uniform": ("replay.methods=queue uniform",),
    "clear": ("replay.methods=queue uniform", *CLEAR),
}
COMMON = ("algorithm.name=impala", "optimizer.learning_rate=0.0004", "evaluation.minutes=0")
FIRST = "asphalt"
GROUNDS = {FIRST: ["MarioCircuit.*"], "planks": ["GhostValley.*"], "ice": ["VanillaLake.*"]}  # as keys of [levels]
MEASURES = {"progress": "share of the race driven", "finished": "races finished"}

Scores = dict[str, dict[str, float]]  # of a policy: ground -> measure -> mean over circuits and episodes


def train(folder: Path, seed: int, steps: int, total: int, overrides: Sequence[str], files: Sequence[str]) -> Path:
    """Train until `steps`, or resume with these overrides; returns the last checkpoint.

    Args:
        total: steps on both grounds, all of which the replay holds.
    """
    ours = (f"run.logs={folder.parent}", f"run.name={folder.name}", f"run.seed={seed}")
    kept = (f"run.agent_steps={steps}", f"replay.capacities={total}", "replay.save=true")
    again = [*overrides, *kept]
    options = config_options(files, [*COMMON, *ours, *again])
    return train_to_end(folder, options, Run(agent_steps=steps), lambda: None, config_options([], again))


def levels_of(keys: Sequence[str]) -> list[str]:
    """Overrides to train only on these circuits."""
    return ["levels.*=none", *(f"levels.{key}=train" for key in keys)]


def copy_run(begun: Path, folder: Path, with_replay: bool) -> None:
    """Copy a run, unless the copy exists. Files that never change are hard links."""

    def copy(source: str, target: str) -> None:
        (os.link if source.endswith((".unrolls", ".pt")) else shutil.copy2)(source, target)

    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        ignore = None if with_replay else shutil.ignore_patterns("replay")
        shutil.copytree(begun, partial, ignore=ignore, copy_function=copy)
        partial.replace(folder)


def evaluate(path: Path, result: Path, grounds: Mapping[str, Sequence[str]], episodes: int) -> Scores:
    """Evaluate a checkpoint on all circuits, and write the results."""
    driven = measure(path, grounds, episodes)
    scores: Scores = {}
    for ground in grounds:
        done = [episode for each in driven.values() if each["set"] == ground for episode in each["episodes"]]
        means = circuit_measures(done, None)
        scores[ground] = {name: means[name] for name in MEASURES}
    write_whole(result, json.dumps({"scores": scores, "circuits": driven}, indent=1).encode())
    return scores


def run_seed(options: argparse.Namespace, seed: int, grounds: Mapping[str, Sequence[str]]) -> dict[str, Scores]:
    """Complete a seed; returns the scores after the first ground (`asphalt`) and after the second, by method."""
    folder, steps = options.folder, options.steps
    results = {name: folder / f"{name}-{seed}.json" for name in (FIRST, *options.methods)}
    begun = folder / f"{FIRST}-{seed}"

    def do(name: str, path: Path) -> None:
        evaluate(path, results[name], grounds, options.episodes)
        print(f"seed {seed}, {name}: evaluated", flush=True)

    def first() -> Path:
        overrides = [*options.set, *METHODS["uniform"], *levels_of(GROUNDS[FIRST])]
        return train(begun, seed, steps, 2 * steps, overrides, options.config)

    if not results[FIRST].exists():
        do(FIRST, first())
    for name in options.methods:
        if not results[name].exists():
            run = folder / f"{name}-{seed}"
            if name != "none" and not run.exists() and not (begun / "replay").exists():
                raise SystemExit(
                    f"--methods {name}: the replay of {FIRST} of seed {seed} was removed with the methods before; "
                    "give another --folder"
                )
            copy_run(begun, run, with_replay=name != "none")
            overrides = [*options.set, *METHODS[name], *levels_of(GROUNDS[options.second])]
            do(name, train(run, seed, 2 * steps, 2 * steps, overrides, options.config))
            shutil.rmtree(run / "replay", ignore_errors=True)
    shutil.rmtree(begun / "replay", ignore_errors=True)
    return {name: json.loads(result.read_text(encoding="utf-8"))["scores"] for name, result in results.items()}


def told(values: Sequence[float]) -> str:
    """Format the mean over seeds and its 95 % interval."""
    band = mean_band(np.array(values)[:, None], np.random.default_rng(0))
    interval = f" [{band.low[0]:.2f}, {band.high[0]:.2f}]" if len(values) > 1 else ""
    return f"{band.value[0]:.2f}{interval}"


def table(seeds: Mapping[int, Mapping[str, Scores]], methods: Sequence[str], second: str) -> str:
    """Markdown tables of all measures."""
    lines = []
    for measure_name, title in MEASURES.items():
        columns = (f"{FIRST} before", f"{FIRST} after", "lost", f"{second} before", f"{second} after")
        lines += [f"{title[:1].upper()}{title[1:]}, mean over {len(seeds)} seeds with 95 % intervals:", ""]
        lines += [f"| replay on {second} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
        for method in methods:

            def values(name: str, ground: str, of: str = measure_name) -> list[float]:
                return [scores[name][ground][of] for scores in seeds.values()]

            before, after = values(FIRST, FIRST), values(method, FIRST)
            lost = [one - other for one, other in zip(before, after, strict=True)]
            cells = [before, after, lost, values(FIRST, second), values(method, second)]
            lines.append(f"| {method} | {' | '.join(map(told, cells))} |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="agent steps on each ground (default 100,000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--second", default="planks", choices=[*GROUNDS][1:], help="the second ground (default planks)")
    parser.add_argument("--episodes", type=int, default=3, help="races on each circuit (default 3)")
    parser.add_argument("--folder", type=Path, default=Path("logs/forgetting"))
    parser.add_argument("-c", "--config", nargs="+", default=[], help="configuration files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all runs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # also ends the current training run
    grounds = {ground: circuits_of(GROUNDS[ground], GAME, make_console()) for ground in (FIRST, options.second)}
    about = {name: getattr(options, name) for name in ("second", "steps", "episodes", "config", "set")}
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = options.folder / "settings.json"
    if settings.exists() and json.loads(settings.read_text(encoding="utf-8")) != about:
        parser.error(f"{options.folder} was begun with other settings; give another --folder")
    write_whole(settings, json.dumps(about).encode())
    seeds: dict[int, dict[str, Scores]] = {}
    for seed in options.seeds:
        seeds[seed] = run_seed(options, seed, grounds)
        content: dict[str, Any] = {**about, "seeds": seeds}
        write_whole(options.folder / "forgetting.json", json.dumps(content, indent=1).encode())
        text = table(seeds, options.methods, options.second)
        write_whole(options.folder / "forgetting.md", text.encode())
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
