"""An environment that changes the working directory."""

import os
import tempfile

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Wandering(CartPoleEnv):
    """Goes to another folder when it is made, and at each reset to one that is deleted at once."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        os.chdir("/")

    def reset(self, **options):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
        return super().reset(**options)


class Entering(CartPoleEnv):
    """Enters the folder `data`, where it must be at each reset."""

    def __init__(self, render_mode: str | None = None) -> None:
        os.chdir("data")
        super().__init__(render_mode=render_mode)

    def reset(self, **options):
        assert os.path.basename(os.getcwd()) == "data"
        return super().reset(**options)


gymnasium.register("Wandering-v0", Wandering, max_episode_steps=50)
gymnasium.register("Entering-v0", Entering, max_episode_steps=50)
