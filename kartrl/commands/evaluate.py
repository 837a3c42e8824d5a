"""`kartrl evaluate`: episodes of a trained network on every level, and a table of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kartrl.envs.episode import Episode
from kartrl.envs.world import World
from kartrl.runtime.driving import drive, open_driver

USES = {"train": "trained", "test": "unseen", "none": "other"}


class Result(NamedTuple):
    """All episodes of an evaluation on one level."""

    level: str  # short name; "" where there are no levels
    use: str  # "train", "test" or "none", in the configuration that was trained with
    episodes: tuple[Episode, ...]


def evaluate(
    path: Path, levels: Sequence[str], episodes: int, greedy: bool, device: str, console: Console
) -> list[Result]:
    """Drive so many episodes on each level, and print a table.

    Args:
        path: the checkpoint.
        levels: as the world takes them (the kart: keys of [levels]); without any, those of the checkpoint's
            configuration.

    Raises:
        UserError: the checkpoint, a level or the device is not there or not usable.
    """
    with open_driver(path, levels, device, console=console) as driver:
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
    console.print(_level_table(results, world) if driver.levels else _plain_table(results, world))
    return results


def _level_table(results: Sequence[Result], world: World) -> Table:
    """A row for each level, and one for all of the same use where there are several."""
    table = Table()
    table.add_column(world.level_word, no_wrap=True)
    table.add_column("use", no_wrap=True)
    for column in world.summary_columns:
        table.add_column(column, justify="right")
    for use, label in USES.items():
        group = [result for result in results if result.use == use]
        table.add_section()
        for result in group:
            table.add_row(result.level, label, *world.summarize(result.episodes))
        if len(group) > 1:
            everything = [episode for result in group for episode in result.episodes]
            table.add_row("all", label, *world.summarize(everything), style="bold")
    return table


def _plain_table(results: Sequence[Result], world: World) -> Table:
    """One row for an environment without levels."""
    table = Table()
    for column in ("environment", *world.summary_columns):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for result in results:
        table.add_row(world.config.environment.id, *world.summarize(result.episodes))
    return table
