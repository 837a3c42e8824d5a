"""Environments: the kart race as `kartrl/Kart-v0`, and any other that Gymnasium knows, made ready for an agent.

Importing this registers the kart race and little else: agents, tools and `gymnasium.make` stay quick to start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from kartrl.config import Config

KART = "kartrl/Kart-v0"
if KART not in gymnasium.registry:
    gymnasium.register(KART, entry_point="kartrl.envs.kart:KartEnv")


def make_env(config: Config, circuits: Sequence[str] = (), training: bool = True, render: bool = False) -> gymnasium.Env[Any, Any]:
    """The environment that `config` names, with Discrete actions and episode statistics (`info["episode"]`).

    Observations are uint8 [H, W, C] (stacked pictures along C) or float32 [D].

    Args:
        circuits: for the kart, one of these is drawn at each reset; without any, the circuits trained on.
        training: for the kart, whether episodes may begin at any checkpoint (`environment.random_start`).
        render: whether `env.render()` gives pictures, uint8 [H, W, 3].

    Raises:
        UserError: no such environment or circuit, or one that kartrl cannot drive; it says what there is instead.
    """
    from gymnasium.wrappers import RecordEpisodeStatistics

    if config.is_kart:
        from kartrl.envs.kart import make_kart

        env = make_kart(config, circuits, training, render)
    else:
        from kartrl.envs.wrappers import make_other

        env = make_other(config.environment, render)
    return RecordEpisodeStatistics(env)
