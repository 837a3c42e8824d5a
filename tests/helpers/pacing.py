"""`pacing:Paced-v0` is CartPole at 250 steps a second: its training leaves the cores to the other tests."""

import os
import time
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from setproctitle import getproctitle

STEP_SECONDS = 0.004


class Paced(CartPoleEnv):
    """Its steps take `STEP_SECONDS`."""

    def step(self, action):
        time.sleep(STEP_SECONDS)
        return super().step(action)


class Gated(CartPoleEnv):
    """An agent waits at each step until there is the file that KARTRL_TEST_GATE names."""

    def step(self, action):
        while getproctitle().startswith("kartrl agent") and not Path(os.environ["KARTRL_TEST_GATE"]).exists():
            time.sleep(0.02)
        return super().step(action)


class Unending(Paced):
    """Evaluated, its episodes have no end."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated and getproctitle() == "kartrl evaluator":
            observation, terminated = self.reset()[0], False
        return observation, reward, terminated, truncated, info


gymnasium.register("Paced-v0", Paced, max_episode_steps=500)
gymnasium.register("Gated-v0", Gated, max_episode_steps=500)
gymnasium.register("Unending-v0", Unending)
