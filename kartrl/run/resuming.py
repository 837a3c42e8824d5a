"""Resuming a run: its configuration, what it continues with, and the command that continues it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from kartrl.config import Config, Optimizer, Run, dump, read
from kartrl.envs.named_modules import trust
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.launch import resume_command
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.optimizers import FACTOR, state_shapes
from kartrl.learning.schedules import Progress
from kartrl.run.initial_weights import HOW_COMPUTED, changed_actions, differences
from kartrl.run.run_folder import ended_by
from kartrl.run.stopping import resuming

ENOUGH = 1.25  # times what a finished run has used: at least this are the limits proposed for it


def resumed_config(stored: Checkpoint, files: list[str], overrides: list[str], ended: str = "") -> Config:
    """The stored configuration with changes from the command line.

    Args:
        ended: what has ended the run, see `StopRules`.

    Raises:
        UserError: a change needs another network, environment or optimizer than the checkpoint's, or the environment
            is in a module that the user has not named.
    """
    checkpoint.check_imports(stored.config)
    earlier = stored.config.run.model_copy(update={"schedules": Run().schedules})  # decided at each resume
    config = read(files, overrides, base=dump(stored.config.model_copy(update={"run": earlier})))
    earlier_sections = stored.config.sections
    for name in ("environment", *type(config.world).model_fields, "algorithm"):
        # in a copy of default.cfg, for instance: what was chosen stays
        kept = {
            key: getattr(earlier_sections[name], key)
            for key, value in config.sections[name]
            if value == "auto" and (name != "algorithm" or key == "reward_transform")
        }
        config = config.replaced(**{name: config.sections[name].model_copy(update=kept)})
    for name in (name for name, section in config.sections.items() if section.fixed):
        after, before = config.sections[name], earlier_sections[name]
        if after.model_dump(exclude=HOW_COMPUTED) != before.model_dump(exclude=HOW_COMPUTED):
            raise UserError(f"--resume: section [{name}] must stay as it was; start a new run to change it")
    if any(override.partition("=")[0].strip() == "run.init" for override in overrides):
        raise UserError("--init: starts a new run, but --resume continues one; give only one")
    config = config.model_copy(update={"run": config.run.model_copy(update={"init": stored.config.run.init})})
    if _kept(config.optimizer) != _kept(stored.config.optimizer):
        raise UserError(
            "--resume: [optimizer] name, amsgrad, centered and the use of momentum and of kl_target must stay as they "
            "were; start a new run to change them"
        )
    reached, options = to_resume(config, stored.counters)
    if reached:
        raise UserError(f"--resume: this run is finished, with {reached}; raise its limit:{options}")
    if option := resuming(ended, stored.config.run, config.run):
        raise UserError(f"--resume: this run is finished, by {ended}; change that, as with:{option}")
    return config


def _kept(section: Optimizer) -> tuple[str, set[str]]:
    """The optimizer, and the names of the state that it keeps."""
    return section.name, set(state_shapes(section, [torch.empty(1)]))


def to_resume(config: Config, counters: Counters) -> tuple[str, str]:
    """The limit that a run has reached, and the options with which it can be resumed; if it has none, "" twice.

    They raise each limit that it has mostly used, and stretch its schedules, which would otherwise be over.
    """
    run, minutes = config.run, counters.seconds / 60
    if counters.agent_steps >= run.agent_steps:
        reached = f"{counters.agent_steps:,} agent steps"
    elif run.minutes and minutes >= run.minutes:
        reached = f"{minutes:.1f} minutes"
    else:
        return "", ""
    overrides = []
    if counters.agent_steps > run.agent_steps / 2:
        overrides.append(f"run.agent_steps={_raised(run.agent_steps, counters.agent_steps):.0f}")
    if run.minutes and minutes > run.minutes / 2:
        overrides.append(f"run.minutes={_raised(run.minutes, minutes):g}")
    if any(schedule.changes for schedule in config.schedules.values()):
        overrides.append("run.schedules=stretch")
    return reached, "".join(f" --set {override}" for override in overrides)


def _raised(limit: float, used: float) -> float:
    """The limit, doubled until it leaves room."""
    limit *= 2
    return limit if limit >= ENOUGH * used else _raised(limit, used)


def command(folder: Path, config: Config, counters: Counters) -> str:
    """The command that resumes the run in this folder from a checkpoint with this configuration and these counters."""
    options = to_resume(config, counters)[1] + resuming(ended_by(folder), config.run, config.run)
    return f"{trust(config.environment, config.model)}{resume_command(folder)}{options}"


def newest_command(folder: Path) -> str | None:
    """As `command`, for the newest checkpoint in the folder that can be read; None if there is none."""
    newest = checkpoint.newest_readable(folder)
    return None if newest is None else command(folder, newest[1].config, newest[1].counters)


def account(stored: Checkpoint, config: Config, spec: EnvSpec, contents: Mapping[str, str]) -> Iterator[str]:
    """Lines on what a resumed run continues with, and what differs from its checkpoint."""
    run, counters = config.run, stored.counters
    limit = f" or {run.minutes:g} minutes, of which {counters.seconds / 60:.1f} are over" if run.minutes else ""
    yield (
        f"Resuming at {counters.agent_steps:,} agent steps, {counters.updates:,} updates; "
        f"until {run.agent_steps:,} agent steps{limit}"
    )
    yield _schedules(stored, config)
    changes = [text for name in config.sections for text in _changes(name, stored, config)]
    changes += [*changed_actions(stored, spec), *_changed_levels(stored, config, contents)]
    if changes:
        yield f"Changed since the checkpoint: {'; '.join(changes)}"


def _schedules(stored: Checkpoint, config: Config) -> str:
    progress, schedules = Progress(config.run, stored.counters).schedule(stored.counters), config.schedules
    factor = float(stored.optimizer.get(FACTOR, 1.0))  # of the learning rate, see `optimizer.kl_target`
    values = []
    for key, schedule in schedules.items():
        value = schedule.at(progress) * (factor if key == "optimizer.learning_rate" else 1.0)
        values.append(f"{key} is {value:.3g}" + f" ({schedule})" * schedule.changes)
    if not any(schedule.changes for schedule in schedules.values()):
        how, advice = "No schedule", ""
    elif progress == 1.0:
        how, advice = "Schedules are over", "; --set run.schedules=stretch or restart begins them again"
    else:
        words = {"continue": "continue", "restart": "restart", "stretch": "are stretched over the whole run, now"}
        how, advice = f"Schedules {words[config.run.schedules]} at {progress:.0%}", ""
    return f"{how}: {', '.join(values)}{advice}"


def _changes(name: str, stored: Checkpoint, config: Config) -> list[str]:
    section = config.sections[name]
    keys = {*type(section).model_fields} - {"schedules"}
    found = differences(name, stored.config.sections[name], section, keys)
    return [f"{text} (its folder keeps its name)" if text.startswith("run.name ") else text for text in found]


def _changed_levels(stored: Checkpoint, config: Config, contents: Mapping[str, str]) -> Iterator[str]:
    there, here = stored.config.levels.uses, config.levels.uses
    for key in [*here, *(key for key in there if key not in here)]:
        before, now = there.get(key, "none"), here.get(key, "none")
        if before != now:
            yield f"levels.{key} is {before} there, {now} here"
    if stored.contents is not None:
        for name, digest in contents.items():
            if name not in stored.contents:
                yield f"{name} is new"
            elif stored.contents[name] != digest:
                yield f"the content of {name}"
        if gone := len(stored.contents.keys() - contents.keys()):
            yield f"{gone} of its levels {'is' if gone == 1 else 'are'} gone"
