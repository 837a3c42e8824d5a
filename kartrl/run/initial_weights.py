"""Starting a run from the weights of another: `run.init`."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from kartrl.algorithms import heads_of
from kartrl.config import Config, settings
from kartrl.config.section import Section
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.optimizers import state_shapes
from kartrl.models import ActorCritic

HOW_COMPUTED = {"precision", "bptt"}  # keys of [model] that do not change the meaning of weights
OF_STATE = ("name", "amsgrad", "centered", "momentum", "kl_target")  # keys of [optimizer] that determine its state
OF_CHANNELS = {"environment.grayscale", "environment.frame_stack"}  # keys that determine an image's channels
OF_IMAGES = {"environment.height", "environment.width", *OF_CHANNELS}  # those that determine its shape
# those that may determine any observation's
OF_ANY = {"environment.kwargs", "environment.wrapper", "environment.observation_parts"}


def load_initial(path: Path, config: Config, spec: EnvSpec) -> Checkpoint:
    """Load the checkpoint at `path`, and check that its weights fit a new run.

    Raises:
        UserError: it cannot be read, or its network, observations, actions or optimizer differ, as the message says,
            with all overrides that make this run fit.
    """
    stored = checkpoint.load(path)
    keys = list(_differing(stored, config, spec))
    found, overrides = [], []
    for section, key in keys:
        found += differences(section, stored.config.sections[section], config.sections[section], {key})
        overrides += [f" --set {shlex.quote(text)}" for text in _as_there(stored, section, key)]
    found += [*stored.observation.differences(spec.observation), *changed_actions(stored, spec)]
    if found:
        remedy = f"; add{''.join(overrides)}" if overrides else ""
        raise UserError(f"--init {path}: does not fit this run: {'; '.join(found)}{remedy}")
    if config.run.init_optimizer:
        _check_optimizer(path, stored, config, spec)
    return stored


def anew(initial: Checkpoint, config: Config) -> Checkpoint:
    """The start of a run with these weights: counters at zero, no random states, the optimizer's only if configured."""
    optimizer = initial.optimizer if config.run.init_optimizer else {}
    return initial._replace(
        config=config, counters=Counters(), optimizer=optimizer, random={}, algorithm={}, score=None
    )


def _differing(stored: Checkpoint, config: Config, spec: EnvSpec) -> Iterator[tuple[str, str]]:
    """Section and name of the keys that must be as they were for the weights to fit."""
    there, here = stored.observation, spec.observation
    same, before = stored.config.environment.id == config.environment.id, stored.config.sections
    keys = {f"model.{key}" for key in type(config.model).model_fields if key not in HOW_COMPUTED}
    if there.has_images and here.has_images:
        keys |= OF_CHANNELS if there == here else OF_IMAGES
    if same or stored.action == spec.action:
        keys |= {*load_world(config).action_keys}
    if same and there != here:
        keys |= OF_ANY
    for name, section in config.sections.items():
        for key, value in section if name in before else ():
            if f"{name}.{key}" in keys and value != getattr(before[name], key):
                yield name, key
    if heads_of(stored.config) != heads_of(config):
        yield "algorithm", "name"


def _as_there(stored: Checkpoint, section: str, key: str) -> list[str]:
    """The overrides that give a key the value that it had."""
    values = {f"environment.kwargs.{name}": repr(value) for name, value in stored.config.environment.kwargs.items()}
    if key != "kwargs":
        value = settings(stored.config)[f"{section}.{key}"]
        values = {f"{section}.{key}": str(value).lower() if isinstance(value, bool) else str(value)}
    return [f"{name}={value}" for name, value in values.items()]


def changed_actions(stored: Checkpoint, spec: EnvSpec) -> list[str]:
    """Phrases on actions that differ from the checkpoint's."""
    there, here = stored.action, spec.action
    if there.title != here.title:
        return [f"{there.title} there, {here.title} here"]
    return ["the bounds of its actions differ"] if there != here else []


def _check_optimizer(path: Path, stored: Checkpoint, config: Config, spec: EnvSpec) -> None:
    if not stored.optimizer:
        raise UserError(f"--with-optimizer: {path} has no optimizer state; start without it")
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation, spec.action, heads_of(config))
    if state_shapes(config.optimizer, network.parameters()).keys() != stored.optimizer.keys():
        found = differences("optimizer", stored.config.optimizer, config.optimizer, OF_STATE)
        raise UserError(
            f"--with-optimizer: {path} has the state of {stored.config.optimizer.name}, this run has "
            f"{config.optimizer.name}: {'; '.join(found)}"
        )


def differences(name: str, there: Section, here: Section, keys: Any) -> list[str]:
    """Phrases on those of these keys of a section that differ."""
    return [
        f"{name}.{key} is {_value(getattr(there, key))} there, {_value(getattr(here, key))} here"
        for key in type(here).model_fields
        if key in keys and getattr(there, key) != getattr(here, key)
    ]


def _value(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
