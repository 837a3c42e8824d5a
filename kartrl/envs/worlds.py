"""Which world an `environment.id` means: the only place that knows worlds by their names."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import gymnasium

from kartrl.envs.world import Env, World

if TYPE_CHECKING:
    from kartrl.config import Config
    from kartrl.envs.env_group import EnvGroup

WORLDS = {"kartrl/Kart-v0": "kartrl.kart.world:KartWorld"}
"""`environment.id` -> module and class, imported when it is asked for, as in Gymnasium's registry."""
CONSOLE_FPS = 60  # of an SNES and an Atari alike

if "kartrl/Kart-v0" not in gymnasium.registry:
    gymnasium.register("kartrl/Kart-v0", entry_point="kartrl.kart.env:KartEnv")


class GymnasiumWorld(World):
    """Any environment of Gymnasium's registry; Atari games are stepped by ale-py's own group."""

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        """See `World.open_env`; there are no levels."""
        from kartrl.envs.wrappers import make_other

        return make_other(self.config.environment, render)

    def make_group(self, size: int) -> EnvGroup:
        """See `World`."""
        from kartrl.envs.env_group import AtariGroup
        from kartrl.envs.wrappers import atari_spec

        spec = atari_spec(self.config.environment.id)
        return super().make_group(size) if spec is None else AtariGroup(self.config.environment, spec, size)

    def pictures_per_second(self, env: Env) -> float:
        """See `World`."""
        from kartrl.envs.wrappers import atari_spec

        if atari_spec(self.config.environment.id) is not None:  # says 30, whatever the frame skip
            return CONSOLE_FPS / self.config.environment.frame_skip
        return super().pictures_per_second(env)


def load_world(config: Config) -> World:
    """The world that `config.environment.id` names."""
    module, _, name = WORLDS.get(config.environment.id, "").partition(":")
    if not module:
        return GymnasiumWorld(config)
    world: World = getattr(importlib.import_module(module), name)(config)
    return world
