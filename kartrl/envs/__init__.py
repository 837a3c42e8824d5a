"""Environments: any of Gymnasium's, wrapped for agents, and worlds that offer more, such as the kart race.

Importing this loads little, so that agents and tools start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium

from kartrl.envs.worlds import load_world

if TYPE_CHECKING:
    from kartrl.config import Config
    from kartrl.envs.env_group import EnvGroup


def make_env(
    config: Config, levels: Sequence[str] = (), training: bool = True, render: bool = False
) -> gymnasium.Env[Any, Any]:
    """Make the environment that `config` names, after preparing its levels; see `World.open_env`."""
    return load_world(load_world(config).prepare()).open_env(levels, training, render)


def make_group(config: Config, size: int, beat: Callable[[], None] = lambda: None) -> EnvGroup:
    """Make `size` environments for training; the levels of `config` must be prepared. For `beat` see `World`."""
    world = load_world(config)
    world.beat = beat
    return world.make_group(size)
