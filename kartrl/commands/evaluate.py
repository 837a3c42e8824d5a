"""`kartrl evaluate`: runs a trained network on every level, and prints a table."""

import argparse
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table

from kartrl.commands.shared.arguments import Parser, add_levels, add_max_steps, add_policy, add_world, policies_of
from kartrl.commands.shared.policy import Driving, find_policy
from kartrl.commands.shared.progress import Progress
from kartrl.commands.shared.results import add_formats, as_json, console_for, csv_text, print_results
from kartrl.comparison.statistics import mean_interval
from kartrl.envs.episode import Result
from kartrl.envs.world import Env, World
from kartrl.errors import UserError
from kartrl.files import ANOTHER, check_folder, explained, output_file, unused_file, user_path, write_whole
from kartrl.hardware.machine import cores
from kartrl.metrics.tables import Line, fitted, say
from kartrl.options import positive
from kartrl.processes.spawn import start_method

MANY_EPISODES = 16  # for which other processes help, even on a single level
USES = {"train": "", "test": " (unseen)", "none": " (other)"}  # suffixes of the level names in a table


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "evaluate my-run logs/my-run/best.pt",
        "evaluate my-run -l '*.Act1',random:100-119 --episodes 3",
        "evaluate --set kart.opponents=3",
        "evaluate my-run --json -o episodes.csv",
    )
    add_levels(parser, "only these circuits, named as in [levels], such as random:100-119")
    add_policy(parser, several=True)
    add_world(parser)
    parser.add_argument("--episodes", type=positive, default=5, help="races per circuit (default 5)")
    add_max_steps(parser, film=False)
    add_formats(parser, "episode")
    parser.add_argument(
        "-o", "--output", type=user_path, metavar="FILE", help="write a row for each episode to FILE.csv"
    )


def run(options: argparse.Namespace) -> int:
    """Evaluate, and print the table; returns the exit status."""
    console = console_for(options)
    _start_helpers(options)
    file = None if options.output is None else output_file(options.output, "episodes", ".csv")
    if file is not None:
        check_folder(file)
    paths = [find_policy(name, bool(options.state), console) for name in policies_of(options)]
    found: list[dict[str, Any]] = []

    def keep(path: Path, world: World, results: Sequence[Result], agent_steps: int) -> None:
        about = {"checkpoint": str(path), "agent_steps": agent_steps, "greedy": options.greedy}
        found.append(as_json(results, world, about))

    try:
        for path in paths:
            evaluate(path, Driving.of(options), options.episodes, console, partial(keep, path))
    finally:  # on Ctrl-C, with the episodes until then
        if len(found) > 1:
            console.print(_compared(found, console.width))
        rows = [{"checkpoint": one["checkpoint"], **row} for one in found for row in one["episodes"]]
        if found:
            print_results(options, rows, checkpoints=found)
        if file is not None and found:
            with explained(f"-o {file}", "write", ANOTHER), unused_file(file) as unused:
                write_whole(unused, csv_text(rows).encode())
            say(console, f"Wrote {unused}")
    return 0


def _start_helpers(options: argparse.Namespace) -> None:
    """Have the fork server of the processes that help load torch while this process does, if they are likely."""
    many = bool(options.state) or options.episodes >= MANY_EPISODES
    if many and cores() > 1 and options.device in ("auto", "cpu"):
        with contextlib.suppress(UserError):  # it is tried again when they are needed
            start_method("kartrl.driving.levels", "kartrl.driving.actor", "kartrl.learning.checkpoint")


def _compared(found: Sequence[Mapping[str, Any]], width: int) -> Table:
    """A row for each policy: the mean return of all its episodes, and its interval."""
    lines = []
    for one in found:
        returns = np.array([row["return"] for row in one["episodes"]])
        low_high = mean_interval(returns)
        between = "-" if low_high is None else f"{low_high[0]:,.2f} to {low_high[1]:,.2f}"
        mean = f"{returns.mean():,.2f}" if len(returns) else "-"
        lines.append(Line(one["checkpoint"], [mean, between, str(len(returns)), f"{one['agent_steps']:,}"]))
    return fitted("policy", ["mean return", "95 % interval", "episodes", "agent steps"], [lines], width, HEAVY_HEAD)


def evaluate(
    path: Path,
    driving: Driving,
    episodes: int,
    console: Console,
    write: Callable[[World, list[Result], int], None] = lambda *_: None,
    name: str = "",
) -> list[Result]:
    """Run `episodes` episodes on each level, and print a table, on Ctrl-C that of the episodes until then.

    Args:
        write: called with the world, the results and the checkpoint's agent steps after the table, also on Ctrl-C.
        name: of the policy above the table; default: `path`.

    Raises:
        UserError: the checkpoint, a level or the device is missing or unusable.
    """
    from kartrl.driving.evaluation import Evaluation  # loads torch

    with driving.opened(path, console) as driver:
        world, how = driver.world, "greedy" if driving.greedy else "sampled"
        said = f"{name or path}: {driver.agent_steps:,} agent steps, {how}"
        evaluation = Evaluation(driver, episodes)
        progress = Progress(console, evaluation.total)

        def finish(note: str) -> None:
            _print(evaluation.results, f"{said}{note}", world, console)
            write(world, evaluation.results, driver.agent_steps)

        def look(_: Env) -> None:
            progress.step(lambda: f", {evaluation.done} of {evaluation.total} episodes")

        progress.begin(world.config.environment.id)
        try:
            with progress:
                evaluation.run(greedy=driving.greedy, on_step=look, on_end=progress.end)
        except KeyboardInterrupt:
            finish("; interrupted")
            raise
    finish(f", {episodes} episode{'s' * (episodes > 1)} each")
    return evaluation.results


def _print(results: Sequence[Result], title: str, world: World, console: Console) -> None:
    say(console, title)
    if results:
        console.print(_table(results, world, console.width))
    for text in world.tell_more([episode for result in results for episode in result.episodes]):
        say(console, text)


def _table(results: Sequence[Result], world: World, width: int) -> Table:
    """A row for each level, and one for all levels of the same use if there are several."""
    if not any(result.level for result in results):
        rows = [Line(world.config.environment.id, world.summarize(result.episodes)) for result in results]
        return fitted("environment", world.summary_columns, [rows], width, HEAVY_HEAD)
    sections = []
    for use, note in USES.items():
        group = [result for result in results if result.use == use]
        rows = [Line(result.level, world.summarize(result.episodes), note) for result in group]
        if len(group) > 1:
            everything = [episode for result in group for episode in result.episodes]
            rows.append(Line("all", world.summarize(everything), note, bold=True, level=False))
        sections.append(rows)
    return fitted(world.level_word, world.summary_columns, sections, width, HEAVY_HEAD)
