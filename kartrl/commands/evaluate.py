"""`kartrl evaluate`: runs a trained network on every level, and prints a table."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kartrl.commands.arguments import Parser, add_levels, add_policy, add_world, positive
from kartrl.commands.policy import find_policy
from kartrl.envs.episode import Episode
from kartrl.envs.world import World
from kartrl.metrics.tables import Line, fitted

USES = {"train": "", "test": " (unseen)", "none": " (other)"}  # suffixes of the level names in a table


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl evaluate`."""
    parser.runs(
        run,
        "evaluate -p my-run",
        "evaluate -p my-run -s '*.Act1',random:100-119 --episodes 3",
        "evaluate --set environment.opponents=3",
    )
    add_levels(parser, "only these circuits, named as in [levels], such as random:100-119")
    add_policy(parser)
    add_world(parser)
    parser.add_argument("--episodes", type=positive, default=5, help="races per circuit (default 5)")


def run(options: argparse.Namespace) -> int:
    """Evaluate, and print the table; returns the exit status."""
    console = Console()
    path = find_policy(options.checkpoint, bool(options.state), console)
    evaluate(path, options.state, options.episodes, options.greedy, options.device, console, options.set)
    return 0


class Result(NamedTuple):
    """All episodes of an evaluation on one level."""

    level: str  # short name; "" if there are no levels
    use: str  # "train", "test" or "none", in the configuration of the training run
    episodes: tuple[Episode, ...]


def evaluate(
    path: Path,
    levels: Sequence[str],
    episodes: int,
    greedy: bool,
    device: str,
    console: Console,
    overrides: Sequence[str] = (),
) -> list[Result]:
    """Run `episodes` episodes on each level, and print a table.

    Args:
        path: the checkpoint.
        levels: as accepted by the world (the kart: keys of [levels]); if empty, those of the checkpoint's
            configuration.
        overrides: as for `open_driver`.

    Raises:
        UserError: the checkpoint, a level or the device is missing or unusable.
    """
    from kartrl.driving.driving import drive, open_driver  # loads torch

    with open_driver(path, levels, device, console=console, overrides=overrides) as driver:
        world = driver.world
        chosen = driver.levels or ("",)
        uses = world.find_uses([world.name_level(level) for level in driver.levels])
        results = []
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("", total=len(chosen) * episodes)
            for level in chosen:
                name = world.name_level(level) if level else ""
                use = uses.get(name, "none") if level else "train"
                done: list[Episode] = []
                for seed in range(episodes):
                    title = name or world.config.environment.id
                    progress.update(task, description=f"{title}, episode {seed + 1} of {episodes}")
                    driven = drive(
                        world,
                        driver.env,
                        driver.network,
                        level,
                        greedy=greedy,
                        seed=seed,
                        use=use,
                    )
                    done.append(driven.episode)
                    progress.advance(task)
                results.append(Result(name, use, tuple(done)))
    how = "greedy" if greedy else "sampled"
    console.print(
        f"{path}: {driver.agent_steps:,} agent steps, {how}, {episodes} episode{'s' * (episodes > 1)} each",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_table(results, world, console.width))
    return results


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
