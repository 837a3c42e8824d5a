"""Runs to compare: read from their folders, grouped, and refused if their scores are not comparable."""

import contextlib
import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kartrl.comparison.curves import Moment, Points, all_reached
from kartrl.config import Config, settings
from kartrl.config.wording import nearest
from kartrl.envs.worlds import ATARI_KEYS, IMAGE_KEYS, game_of, load_world
from kartrl.errors import UserError
from kartrl.files import explained
from kartrl.learning import checkpoint
from kartrl.metrics import episodes_csv, scalars_csv
from kartrl.metrics.episodes_csv import EpisodeRow
from kartrl.run.folders import config_of, find_run
from kartrl.run.run_folder import CONFIG

RETURN = "episodic_return"
EPISODE_METRICS = (RETURN, "episodic_length", "finished")  # columns of episodes.csv
LEARNERS_KEYS = IMAGE_KEYS | {"life_loss_ends", "action_bounds", "action_masks"}
"""Keys of [environment] that may differ: what the learner sees of a task, and what it knows of its rules."""
PLACES = ("train", "test")  # uses of levels, as in tags
SOURCE = re.compile(r"# (command|version|packages|machine): (.*)")
TIME = re.compile(r"\d{1,10}(\.\d+)?")  # seconds since the Unix epoch
TRAINING = "training"  # key of `ComparedRun.finished`


class ComparedRun(NamedTuple):
    """A run and its metric."""

    name: str
    config: Config  # that it was begun with
    resumed: Config  # of its newest checkpoint
    points: Points  # at least one
    finished: dict[str, Moment | None]
    """When all levels of a use had been finished in evaluations, and all levels in training, if there are several."""
    source: Mapping[str, str]  # where it comes from, see `kartrl.run.provenance`; what is not known is left out
    ended: float  # when its last episode in training did, in seconds since the Unix epoch; 0 if that is not known

    @property
    def task(self) -> str:
        """The task that it learns: the environment's id."""
        return self.config.environment.id


Groups = dict[str, dict[str, list[ComparedRun]]]
"""Group -> task -> its runs; all groups have the same tasks."""


def read_run(name: str, metric: str) -> ComparedRun:
    """Read a run by its folder, or by its name in logs.

    Args:
        metric: one of `EPISODE_METRICS`, or a tag of scalars.csv.

    Raises:
        UserError: there is no such run, it cannot be read, or it has no value of the metric; names the nearest metric.
    """
    folder = find_run(name)
    config = config_of(folder)
    with explained(folder, "read this run"):
        tags, episodes = _read_tags(folder), list(episodes_csv.read(folder))
    points = _column(episodes, metric) if metric in EPISODE_METRICS else _points(tags.get(metric, []))
    if not len(points.value):
        raise _lacking(folder, metric, tags)
    finished = {}
    names = {row.level for row in episodes}
    evaluated = {use: {_level(tag): found for tag, found in tags.items() if _is_level(tag, use)} for use in PLACES}
    # Where there are many levels, evaluations are logged by groups of them, which do not tell when each was finished.
    for use in PLACES if evaluated["train"].keys() <= names else ():
        if evaluated[use]:
            finished[use] = all_reached([_points(found) for found in evaluated[use].values()], 1.0)
    if len(names) > 1:
        levels = [_column([row for row in episodes if row.level == name], "finished") for name in names]
        finished[TRAINING] = all_reached(levels, 1.0)
    ended = float(episodes[-1].time) if episodes and TIME.fullmatch(episodes[-1].time) else 0.0
    newest = checkpoint.newest_readable(folder)
    begun = _source(folder)
    resumed, source = (config, begun) if newest is None else (newest[1].config, newest[1].provenance or begun)
    if command := begun.get("command"):  # what trains it anew, not the one that resumed it
        source = {**source, "command": command}
    return ComparedRun(folder.name, config, resumed, points, finished, source, ended)


def read_metric(folder: Path, metric: str) -> Points:
    """All values of a metric in a run so far.

    Args:
        metric: one of `EPISODE_METRICS`, or a tag of scalars.csv.

    Raises:
        UserError: it cannot be read, or has no value of the metric; names the nearest metric.
    """
    with explained(folder, "read this run"):
        if metric in EPISODE_METRICS:
            points, tags = _column(list(episodes_csv.read(folder)), metric), []
        else:
            found = _read_tags(folder)
            points, tags = _points(found.get(metric, [])), list(found)
    if not len(points.value):
        raise _lacking(folder, metric, tags)
    return points


def _lacking(folder: Path, metric: str, tags: Iterable[str]) -> UserError:
    if metric in EPISODE_METRICS:
        return UserError(f"{folder}: has no {metric} yet, as no episode of its training has ended; train longer")
    near = difflib.get_close_matches(metric, [*tags, *EPISODE_METRICS], n=1)
    return UserError(f"{folder}: has no {metric} yet" + (f"; the nearest that it has is {near[0]}" if near else ""))


def group(
    runs: Sequence[ComparedRun], by: str, labels: Sequence[str] = (), leave_out: Callable[[str], None] | None = None
) -> Groups:
    """Group runs by a key of their configuration, or by `labels`, one per run, if given.

    Args:
        leave_out: called with the reason for each task that is left out, as a group lacks it; None: that is refused.

    Raises:
        UserError: a run has no such key, a group lacks a task of the others, or as `check_comparable`.
    """
    check_comparable([(run.name, run.config) for run in runs], by)
    _check_resumed(runs, by)
    levels = {key for run in runs for key in settings(run.config) if key.startswith("levels.")}
    groups: defaultdict[str, dict[str, list[ComparedRun]]] = defaultdict(dict)
    for index, run in enumerate(runs):
        label = labels[index] if labels else _setting(run, by, levels)
        groups[label].setdefault(run.task, []).append(run)
    tasks = {run.task: run for run in runs}
    common = dict(tasks)
    for label, members in groups.items():
        for task in [task for task in common if task not in members]:
            lacking = f"{by} = {label} has no run on {task}, as {tasks[task].name} is"
            if leave_out is None:
                raise UserError(f"cannot compare: {lacking}")
            leave_out(lacking)
            del common[task]
    return {label: {task: members[task] for task in common} for label, members in groups.items()} if common else {}


def check_comparable(runs: Sequence[tuple[str, Config]], by: str) -> None:
    """Refuse runs on the same task whose scores or steps are not comparable.

    Args:
        by: the key by which they are compared, which may differ.

    Raises:
        UserError: two runs cannot be compared; names them and says why.
    """
    for other, there in runs:
        game = game_of(there.environment.id)
        one, here = next(run for run in runs if game_of(run[1].environment.id) == game)
        if here.environment.id != there.environment.id:
            raise UserError(
                f"cannot compare: {one} is on {here.environment.id}, {other} on another version, {there.environment.id}"
            )
        for key, value in _rules(here, by).items():
            its = _rules(there, by)[key]
            # nobody chose what is still auto: it has no effect
            chosen = "auto" not in (value, its) or key.partition(".")[2] not in ATARI_KEYS
            if value != its and chosen and not f"{by}.".startswith(f"{key}."):
                raise UserError(f"cannot compare: {one} has {key} = {value or 'none'}, {other} has {its or 'none'}")


def _source(folder: Path) -> dict[str, str]:
    """Where a run comes from, as its configuration's file begins."""
    try:
        head = (folder / CONFIG).read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    return {found[1]: found[2] for found in SOURCE.finditer(head)}


def _check_resumed(runs: Sequence[ComparedRun], by: str) -> None:
    """Refuse runs that went on with another task, or with another value of the key `by`."""
    for run in runs:
        before, after = (
            {by: str(settings(config).get(by, "none"))} | _rules(config, by) for config in (run.config, run.resumed)
        )
        for key in before:
            if before[key] != after[key]:
                raise UserError(
                    f"cannot compare: {run.name} was begun with {key} = {before[key] or 'none'} and resumed with "
                    f"{after[key] or 'none'}"
                )


def _read_tags(folder: Path) -> dict[str, list[tuple[float, float, float]]]:
    tags: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in scalars_csv.read(folder):
        tags[row.tag].append((row.agent_steps, row.seconds / 60, row.value))
    return tags


def _column(episodes: Sequence[EpisodeRow], name: str) -> Points:
    return _points([(row.agent_steps, row.seconds / 60, getattr(row, name)) for row in episodes])


def _points(rows: Sequence[tuple[float, float, float]]) -> Points:
    values = np.array(rows, np.float64).reshape(-1, 3)
    values = values[np.isfinite(values).all(1)]
    return Points(values[:, 0], values[:, 1], values[:, 2])


def _is_level(tag: str, use: str) -> bool:
    return tag.startswith(f"evaluation_{use}/") and tag.endswith("/finished")


def _level(tag: str) -> str:
    return tag.partition("/")[2].rpartition("/")[0]


def _setting(run: ComparedRun, key: str, others: Collection[str]) -> str:
    known = settings(run.config)
    if key not in known and key in others:
        return "none"  # a level that other runs use
    if key not in known:
        near = nearest(key, [*known])
        raise UserError(f"--by {key}: the run {run.name} has no such key; the nearest that it has is {near}")
    return str(known[key])


def _rules(config: Config, by: str) -> dict[str, str]:
    """The settings that define a task and its score, by key, without the level that `by` names."""
    section, world = config.environment, load_world(config)
    keys = [key for key in type(section).model_fields if key not in {"id", "kwargs", *LEARNERS_KEYS}]
    # whether an Atari key has an effect is not known where its package is not installed
    keys = [key for key in keys if key in ATARI_KEYS or world.has_effect(key, images=True)]
    if section.frame_skip == "auto" and "frame_skip" in keys:  # not of a run, but of one to come
        with contextlib.suppress(UserError):  # ale-py is not installed
            if world.usual_view is not None:
                section = section.model_copy(update={"frame_skip": world.frames_per_step})
    rules: dict[str, Any] = {f"environment.{key}": getattr(section, key) for key in keys}
    rules["environment.kwargs"] = section.kwargs
    for name, own in config.world:
        rules |= {f"{name}.{key}": value for key, value in own if f"{name}.{key}" not in world.seen_keys}
    levels = [(key, use) for key, use in sorted(config.levels.uses.items()) if f"levels.{key}" != by]
    rules |= {f"levels ({use})": " ".join(key for key, its in levels if its == use) for use in PLACES}
    # keys of environment.kwargs may be in any order
    return {key: str(dict(sorted(value.items())) if isinstance(value, dict) else value) for key, value in rules.items()}
