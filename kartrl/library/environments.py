"""Environments of a configuration."""

from collections.abc import Sequence
from typing import Any

import gymnasium

from kartrl.config import Config
from kartrl.envs.worlds import load_world
from kartrl.library.configuration import as_names, checked_config


def make_env(
    config: Config, levels: str | Sequence[str] = (), *, training: bool = False, render: bool = False
) -> gymnasium.Env[Any, Any]:
    """Make the environment of a configuration, wrapped as for training.

    Observations are what the network reads: uint8 [H, W, C], float32 [D], or, if they have several parts, uint8 [N].
    Actions are what `Policy.act` returns.

    Args:
        levels: one or several, as on the command line, one of which each reset draws; if empty, the training levels.
        training: episodes begin as in training, such as anywhere on a circuit, and are not truncated for evaluation.
        render: `env.render()` returns frames, uint8 [H, W, 3].

    Raises:
        UserError: there is no such environment or level, or kartrl does not support it.
    """
    world = load_world(checked_config(config, "make_env"))
    if levels:
        found = world.find_levels(as_names(levels))
    else:
        world = load_world(world.prepare())
        found = world.levels("train")
    return world.open_env(found, training=training, render=render)
