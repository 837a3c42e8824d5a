"""Starting a run from the weights of another: `run.init`."""

from pathlib import Path
from typing import Any

import torch

from kartrl.algorithms import heads_of
from kartrl.config import Config
from kartrl.config.section import Section
from kartrl.envs.spec import EnvSpec
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.learning.checkpoint import Checkpoint
from kartrl.learning.counters import Counters
from kartrl.learning.optimizers import state_shapes
from kartrl.models import ActorCritic

HOW_COMPUTED = {"precision", "torchscript", "bptt"}  # keys of [model] that do not change the meaning of weights
OF_STATE = ("name", "amsgrad", "centered", "momentum", "kl_target")  # keys of [optimizer] that determine its state
OF_IMAGES = ("grayscale", "frame_stack")  # keys of [environment] that determine an image's channels


def load_initial(path: Path, config: Config, spec: EnvSpec) -> Checkpoint:
    """Load the checkpoint at `path`, and check that its weights fit a new run.

    Args:
        config: the new run's configuration.
        spec: spec of its environment.

    Raises:
        UserError: it cannot be read, or its network, observations, actions or optimizer differ, as the message says.
    """
    stored = checkpoint.load(path)
    if found := [*_model(stored, config), *_observations(stored, config, spec), *changed_actions(stored, config, spec)]:
        raise UserError(f"--init {path}: does not fit this run: {'; '.join(found)}")
    if config.run.init_optimizer:
        _check_optimizer(path, stored, config, spec)
    return stored


def anew(initial: Checkpoint, config: Config) -> Checkpoint:
    """The start of a run with these weights: counters at zero, no random states, the optimizer's only if configured."""
    optimizer = initial.optimizer if config.run.init_optimizer else {}
    return initial._replace(
        config=config, counters=Counters(), optimizer=optimizer, random={}, algorithm={}, score=None
    )


def _model(stored: Checkpoint, config: Config) -> list[str]:
    keys = set(type(config.model).model_fields) - HOW_COMPUTED
    there, here = (" and ".join(sorted({"policy", *heads_of(one)})) for one in (stored.config, config))
    heads = [f"heads for {there} there, for {here} here (algorithm.name)"] if there != here else []
    return differences("model", stored.config.model, config.model, keys) + heads


def _observations(stored: Checkpoint, config: Config, spec: EnvSpec) -> list[str]:
    there, here = stored.observation_shape, spec.observation_shape
    if there != here:
        return [f"observations are {_shape(there)} there, {_shape(here)} here"]
    keys = OF_IMAGES if len(here) == 3 else ()
    return differences("environment", stored.config.environment, config.environment, keys)


def changed_actions(stored: Checkpoint, config: Config, spec: EnvSpec) -> list[str]:
    """Phrases on actions that differ from the checkpoint's."""
    there, here = stored.action, spec.action
    if there.title != here.title:
        return [f"{there.title} there, {here.title} here"]
    if there != here:
        return ["the bounds of its actions differ"]
    return differences("environment", stored.config.environment, config.environment, ("actions",))


def _check_optimizer(path: Path, stored: Checkpoint, config: Config, spec: EnvSpec) -> None:
    if not stored.optimizer:
        raise UserError(f"--with-optimizer: {path} has no optimizer state; start without it")
    with torch.device("meta"):  # shapes without memory
        network = ActorCritic(config.model, spec.observation_shape, spec.action, heads_of(config))
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


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) if len(shape) > 1 else f"{shape[0]} numbers"
