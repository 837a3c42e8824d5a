"""Makes the world of an `environment.id`; the world of those that bring none."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from kartrl.envs.world import Env, World

if TYPE_CHECKING:
    from kartrl.config import Config, View
    from kartrl.envs.env_group import EnvGroup

IMAGE_KEYS = {"frame_stack", "height", "width", "grayscale", "crop", "mirrored_actions", "mirror"}  # of [environment]
ATARI_KEYS = {"frame_skip", "noop_max", "life_loss_ends"}
LIVES = {"kartrl/CarRacing-v3"}  # other environments with lives
ATARI_OWN = {"kwargs.frameskip", "kwargs.obs_type", "kwargs.sound_obs"}  # which kartrl sets or leaves out
CONSOLE_FPS = 60  # of both SNES and Atari
ACTIONS = {  # of Gymnasium's environments, by their classes
    "AcrobotEnv": ("left", "none", "right"),
    "BlackjackEnv": ("stick", "hit"),
    "CarRacing": ("none", "right", "left", "gas", "brake"),
    "CartPoleEnv": ("left", "right"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "LunarLander": ("none", "left", "main", "right"),
    "MountainCarEnv": ("left", "none", "right"),
    "TaxiEnv": ("down", "up", "right", "left", "pickup", "dropoff"),
}


class GymnasiumWorld(World):
    """Any environment of Gymnasium's registry; Atari games are stepped by ale-py's own group."""

    training_keys: ClassVar = World.training_keys | {"environment.life_loss_ends"}

    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        """See `World.open_env`; there are no levels."""
        from kartrl.envs.registered import make_registered

        for driver in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
            os.environ.setdefault(driver, "dummy")  # so that pygame needs no display or sound card, and does not warn
        return make_registered(self.config.environment, render)

    def open_env(self, levels: Sequence[str] = (), training: bool = True, render: bool = False) -> Env:
        """See `World`; in training, the loss of a life may end the episode."""
        from kartrl.envs.wrappers.atari import LifeLossEnds

        env, section = super().open_env(levels, training, render), self.config.environment
        ends = training and section.life_loss_ends and self.has_effect("life_loss_ends", images=True)
        return LifeLossEnds(env) if ends else env

    def make_group(self, size: int) -> EnvGroup:
        from kartrl.envs.env_group import AtariGroup
        from kartrl.envs.registered import atari_spec

        section = self.config.environment
        spec = atari_spec(section)
        if spec is None or section.wrapper != "none" or not spec.kwargs.keys() <= AtariGroup.ARGUMENTS:
            return super().make_group(size)
        return AtariGroup(section, spec, size)

    def action_names(self, env: Env) -> tuple[str, ...]:
        """See `World`."""
        known = [ACTIONS[one.__name__] for one in type(env.unwrapped).__mro__ if _is_gymnasiums(one)]
        return known[0] if known else super().action_names(env)

    @property
    def usual_view(self) -> View | None:
        from kartrl.envs.registered import atari_spec
        from kartrl.envs.wrappers.atari import USUAL

        return None if atari_spec(self.config.environment) is None else USUAL

    @property
    def usual_rewards(self) -> str:
        return "none" if self.usual_view is None else "clip"

    def has_effect(self, key: str, images: bool) -> bool:
        """See `World`: not keys about images if observations have none."""
        from kartrl.envs.registered import atari_spec

        if key == "life_loss_ends" and self.config.environment.id in LIVES:
            return True
        if key in ATARI_KEYS | ATARI_OWN:
            return (atari_spec(self.config.environment) is not None) == (key in ATARI_KEYS)
        if key == "observation_parts":
            return self.usual_view is None or self.config.environment.wrapper != "none"
        known = key in ("id", "wrapper", "action_bounds", "action_masks")
        return known or key.startswith("kwargs.") or (key in IMAGE_KEYS and images)

    def pictures_per_second(self, env: Env) -> float:
        if self.usual_view is not None:  # its metadata says 30, whatever the frame skip
            return CONSOLE_FPS / self.frames_per_step
        return super().pictures_per_second(env)


def _is_gymnasiums(one: type) -> bool:
    return one.__name__ in ACTIONS and one.__module__.startswith("gymnasium.")


def game_of(task: str) -> str:
    """An environment's id without namespace, version and the frame skip in Atari's ids."""
    return re.sub(r"(NoFrameskip|Deterministic)?(-v\d+)?$", "", re.split("[:/]", task)[-1])


def load_world(config: Config) -> World:
    """The world that `config.environment.id` names."""
    from kartrl.config.worlds import settings_of

    module, _, name = settings_of(config.environment.id).world.partition(":")
    world: World = getattr(importlib.import_module(module), name)(config)
    return world
