"""Tables of what was measured on each level, with intervals."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from kartrl.comparison.report import Table
from kartrl.comparison.statistics import mean_interval
from kartrl.envs.episode import Result
from kartrl.envs.world import World
from kartrl.envs.world_levels import MANY
from kartrl.envs.worlds import load_world
from kartrl.metrics import episodes_csv, scalars_csv
from kartrl.report.runs import Told

USES = {"train": "", "test": " (unseen)", "none": " (other)"}  # notes after the names of levels
EVALUATED = re.compile(r"evaluation_(train|test)/(.+)/(\w+)|evaluation/(train|test)_return")  # tags of means
LAST = 0.1  # share of the training whose episodes count, as in the points of a curve

Groups = Mapping[str, Sequence[Told]]  # the runs on a task
Cells = dict[tuple[str, str], dict[str, list[str]]]  # use and level -> group -> the rest of a row


def driven_table(groups: Groups, driven: Mapping[str, Sequence[Sequence[Result]]]) -> Table:
    """Of greedy episodes.

    Args:
        driven: group -> the results of each run.
    """
    world = _world(groups)
    columns = [place for place, name in enumerate(world.summary_columns) if name not in ("mean return", "title")]
    found: dict[tuple[str, str], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for label, runs in driven.items():
        for result in (result for results in runs for result in results):
            found[result.use, result.level][label].append(result)
    cells: Cells = defaultdict(dict)
    for place, of in found.items():
        for label, same in of.items():
            summary = world.summarize([episode for result in same for episode in result.episodes])
            returns = [[episode.episodic_return for episode in result.episodes] for result in same]
            cells[place][label] = [mean(returns), *(summary[column] for column in columns)]
    return _table("Driven for this report, greedily", world, [world.summary_columns[k] for k in columns], cells)


def training_table(groups: Groups) -> Table:
    """Of training episodes."""
    world, cells = _world(groups), Cells()
    for label, runs in groups.items():
        found: dict[str, list[list[tuple[float, int]]]] = {}
        rows = [
            [row for row in episodes_csv.read(one.folder) if row.agent_steps >= (1 - LAST) * one.agent_steps]
            for one in runs
        ]
        many = len({row.level for of_run in rows for row in of_run}) > MANY
        for place, of_run in enumerate(rows):
            for row in of_run:
                name = world.group_of(row.level) if many else row.level
                found.setdefault(name, [[] for _ in runs])[place].append((row.episodic_return, row.finished))
        for name, episodes in found.items():
            ends = [end for same in episodes for _, end in same]
            returns = mean([[value for value, _ in same] for same in episodes])
            finished = [f"{np.mean(ends):.0%}"] if name else []
            cells.setdefault(("train", name), {})[label] = [returns, f"{len(ends):,}", *finished]
    ended = ["finished"] if any(name for _, name in cells) else []
    return _table("Training episodes of the last tenth", world, ["episodes", *ended], cells)


def evaluation_table(groups: Groups) -> Table:
    """Of the newest evaluations during training, whose means alone are known."""
    world = _world(groups)
    found: dict[tuple[str, str], dict[str, dict[str, dict[int, float]]]] = {}
    for label, runs in groups.items():
        for place, one in enumerate(runs):
            for row in scalars_csv.read(one.folder):
                if (tag := EVALUATED.fullmatch(row.tag)) is not None:
                    use, level, key = tag[1] or tag[4], tag[2] or "", tag[3] or "episodic_return"
                    found.setdefault((use, level), {}).setdefault(label, {}).setdefault(key, {})[place] = row.value
    named = any(level for _, level in found)
    keys = [key for key in world.highlights if any(key in values for of in found.values() for values in of.values())]
    cells = {
        place: {
            label: [mean([[value] for value in values.get(key, {}).values()]) for key in ("episodic_return", *keys)]
            for label, values in of.items()
        }
        for place, of in found.items()
        if bool(place[1]) == named  # not the means over all levels
    }
    return _table("The newest evaluation during training", world, [key.replace("_", " ") for key in keys], cells)


def mean(returns: Sequence[Sequence[float]]) -> str:
    """The mean and its 95 % interval: over the means of several runs, or over the episodes of one."""
    finite = [[value for value in values if np.isfinite(value)] for values in returns]
    given = [values for values in finite if values]
    if not given:
        return "-"
    values = np.array(given[0] if len(given) == 1 else [np.mean(values) for values in given])
    between = mean_interval(values)
    return f"{values.mean():,.2f}" + ("" if between is None else f" [{between[0]:,.2f}, {between[1]:,.2f}]")


def _world(groups: Groups) -> World:
    return load_world(next(iter(groups.values()))[0].run.config)


def _table(title: str, world: World, headings: Sequence[str], cells: Cells) -> Table:
    labels = {label for of in cells.values() for label in of}
    named, several = any(level for _, level in cells), len(labels) > 1
    rows = [
        [(level or world.config.environment.id) + USES[use] * named, *[label] * several, *rest]
        for (use, level), of in sorted(cells.items(), key=lambda item: ([*USES].index(item[0][0]), item[0][1]))
        for label, rest in of.items()
    ]
    first = [world.level_word if named else "environment", *["group"] * several, "mean return"]
    return Table(title, [*first, *headings], rows)
