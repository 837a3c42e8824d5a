"""`pacing:Paced-v0` is CartPole at 250 steps a second: its training leaves the cores to the other tests."""

import time

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

STEP_SECONDS = 0.004


class Paced(CartPoleEnv):
    """Its steps take `STEP_SECONDS`."""

    def step(self, action):
        time.sleep(STEP_SECONDS)
        return super().step(action)


gymnasium.register("Paced-v0", Paced, max_episode_steps=500)
