"""The runs of a report: what their folders hold, and how they compare."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from kartrl.comparison.report import SIZES, Comparison, Table, estimate, make_comparison
from kartrl.comparison.runs import ComparedRun, Groups, group, read_metric, read_run
from kartrl.config import Config, dump, read, settings
from kartrl.config.explanation import changes
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.metrics import scalars_csv
from kartrl.run.folders import find_checkpoint
from kartrl.run.run_folder import ended_by

PROGRAM = re.compile(r"^.*?\b(train|run\.py)(?= |$)")  # which a command line begins with, where it was typed
OWN = {("run", "logs"), ("run", "name"), ("environment", "id")}  # keys that are no settings, or told above

T = TypeVar("T")


class Told(NamedTuple):
    """A run, and the policy that the report shows of it."""

    folder: Path
    run: ComparedRun
    policy: Checkpoint | None  # the best, else the newest
    path: Path | None  # its file
    without: str  # why there is no policy; "" if there is one
    seconds: float  # of training
    agent_steps: int


class Runs(NamedTuple):
    """The runs, compared."""

    comparison: Comparison
    evaluations: list[Comparison]  # by what evaluations measured in all of them
    told: dict[str, dict[str, list[Told]]]  # group -> task -> its runs

    @property
    def every(self) -> list[Told]:
        """All runs."""
        return [one for tasks in self.told.values() for runs in tasks.values() for one in runs]

    def best(self, label: str, task: str) -> Told:
        """The run of a group that scores best on a task, among those with a policy if there are any."""
        runs, scores = self.told[label][task], self.comparison.scores[label][self.comparison.tasks.index(task)]
        return max(zip(runs, scores, strict=True), key=lambda pair: (pair[0].policy is not None, pair[1]))[0]


def read_runs(folders: Sequence[Path], metric: str, by: str) -> Runs:
    """Read and compare runs.

    Raises:
        UserError: one cannot be read or has no value of the metric, or two cannot be compared.
    """
    told = [_read(folder, metric) for folder in folders]
    groups, place = group([one.run for one in told], by), {id(one.run): one for one in told}

    def measured(tag: str) -> Groups:
        return _each(groups, lambda run: run._replace(points=read_metric(place[id(run)].folder, tag)))

    found = [(tag, measured(tag)) for tag in _evaluated(told)]
    evaluations = [make_comparison(own, tag, by) for tag, own in found if _are_curves(own)]
    return Runs(make_comparison(groups, metric, by), evaluations, _each(groups, lambda run: place[id(run)]))


def _each(groups: Groups, function: Callable[[ComparedRun], T]) -> dict[str, dict[str, list[T]]]:
    return {
        label: {task: [function(run) for run in runs] for task, runs in tasks.items()}
        for label, tasks in groups.items()
    }


def _read(folder: Path, metric: str) -> Told:
    run, path, policy, without = read_run(str(folder), metric), None, None, ""
    try:
        path = find_checkpoint(str(folder), "")
        policy = checkpoint.load(path)
    except UserError as error:
        without = str(error).strip()
    seconds, agent_steps = scalars_csv.come_to(folder)
    last = max(seconds, 60 * float(run.points.minutes.max())), max(agent_steps, int(run.points.steps.max()))
    return Told(folder, run, policy, path, without, *last)


def _evaluated(told: Sequence[Told]) -> list[str]:
    """Tags of the means over all levels that evaluations logged in every run: returns, and the world's highlights."""
    keys = ["return", *dict.fromkeys(key for one in told for key in load_world(one.run.config).highlights)]
    there = [{row.tag for row in scalars_csv.read(one.folder)} for one in told]
    tags = [f"evaluation/{use}_{key}" for key in keys for use in ("train", "test")]
    return [tag for tag in tags if all(tag in found for found in there)]


def _are_curves(groups: Groups) -> bool:
    return all(len(run.points.value) > 2 for tasks in groups.values() for runs in tasks.values() for run in runs)


def scores(runs: Runs) -> list[tuple[str, str]]:
    """Group and task, and their score."""
    return [
        (f"{label}, {task}", estimate([score]))
        for label, found in runs.comparison.scores.items()
        for task, score in zip(runs.comparison.tasks, found, strict=True)
    ]


def when(runs: Runs) -> str:
    """The day, in UTC, on which the last training episode ended; "" if that is not known."""
    newest = max(one.run.ended for one in runs.every)
    return time.strftime("%Y-%m-%d", time.gmtime(newest)) if newest > 0 else ""


def changed(runs: Runs) -> Table:
    """The settings that are not the defaults, with a column for each group."""
    columns: dict[str, list[dict[tuple[str, str], str]]] = {}
    default: dict[tuple[str, str], str] = {}
    for label, tasks in runs.told.items():
        columns[label] = []
        for one in (one for members in tasks.values() for one in members):
            fitted = _fitted(one)
            for config in (one.run.config, one.run.resumed):
                chosen = {(it.section, it.key) for it in changes(config, fitted)}
                differing = [
                    it
                    for it in changes(config)
                    if (it.section, it.key) not in OWN and (it.there != "auto" or (it.section, it.key) in chosen)
                ]
                default |= {(it.section, it.key): it.there or "not set" for it in differing}
                columns[label].append({(it.section, it.key): it.here or "not set" for it in differing})
    rows = [
        [".".join(key), usual]
        + [", ".join(dict.fromkeys(found.get(key, usual) for found in runs)) for runs in columns.values()]
        for key, usual in default.items()
    ]
    headings = list(columns) if len(columns) > 1 else ["value"]
    return Table("Settings that differ from the defaults", ["setting", "default", *headings], rows)


def _fitted(told: Told) -> Config:
    """The defaults of a run's environment, with what `auto` stands for there as far as that is known."""
    config = read(overrides=[f"environment.id={told.run.task}"])
    if told.policy is not None:
        config = load_world(config).fit(EnvSpec("", told.policy.observation, told.policy.action, 0.0))
    return load_world(config).impersonal()


def about(runs: Runs) -> Table:
    """A row for each run: its length, and the policy shown."""
    rows = []
    for one in runs.every:
        rate = f"{one.agent_steps / one.seconds:,.0f}" if one.seconds else "-"
        policy = ["none", "-", "-"]
        if one.policy is not None and one.path is not None:
            count = sum(tensor.numel() for tensor in one.policy.network.values())
            shown = f"{one.path.name}, {one.policy.counters.agent_steps:,} agent steps"
            policy = [shown, f"{count:,}", f"{one.path.stat().st_size / 1e6:.2f} MB"]
        length = [f"{one.agent_steps:,}", f"{one.seconds / 60:.1f}", rate, ended_by(one.folder) or "can be resumed"]
        rows.append([one.run.name, str(one.run.config.run.seed), *length, *policy])
    headings = ["run", "seed", "agent steps", "minutes", "steps per second", "ended by"]
    headings += ["policy shown", "numbers in its network", "its file"]
    if len(rows) == 1:
        return Table("Run", [], [list(pair) for pair in zip(headings, rows[0], strict=True)])
    return Table("Runs", headings, rows)


def sizes(runs: Runs) -> list[tuple[str, str]]:
    """Task, sizes, hardware and versions: name and values, with the runs' names where they differ."""
    lines: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in runs.every:
        known = {"environment": one.run.task, "algorithm": one.run.config.algorithm.name}
        if one.policy is not None:
            known |= {"observations": one.policy.observation.title, "actions": one.policy.action.title}
        known |= {key: str(value) for key, value in settings(one.run.resumed).items() if key in SIZES}
        for name, text in (known | dict(one.run.source)).items():
            lines[name][text].append(one.run.name)
    lines.pop("command", None)
    return [
        (name, "; ".join(f"{text} ({', '.join(its)})" if len(texts) > 1 else text for text, its in texts.items()))
        for name, texts in lines.items()
    ]


def commands(runs: Runs) -> list[str]:
    """The command lines that started the runs; where they are not known, how to train with the configuration shown."""
    given = (one.run.source.get("command", "kartrl train -c config.cfg") for one in runs.every)
    return list(dict.fromkeys(PROGRAM.sub("kartrl train", command) for command in given))


def configurations(runs: Runs) -> list[tuple[str, str]]:
    """The whole configuration of the first run of each group on each task, by the run's name."""
    first = [members[0].run for tasks in runs.told.values() for members in tasks.values()]
    return [(run.name, dump(run.resumed, comments=False)) for run in first]
