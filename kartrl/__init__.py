"""kartrl: a GA3C/IMPALA actor-learner for pixel games, above all a kart racer on the SNES.

Importing this registers `kartrl/Kart-v0`, `kartrl/Procgen-v0` and two small environments with Gymnasium, and does
nothing else.
"""

import gymnasium

__version__ = "0.1.0"

gymnasium.register("kartrl/Kart-v0", entry_point="kartrl.kart.env:KartEnv")
gymnasium.register("kartrl/Procgen-v0", entry_point="kartrl.envs.games.procgen:ProcgenEnv")
gymnasium.register("kartrl/Snake-v0", entry_point="kartrl.envs.games.snake:SnakeEnv")
gymnasium.register(
    "kartrl/MaskedCartPole-v1",
    entry_point="kartrl.envs.games.masked_cartpole:MaskedCartPoleEnv",
    max_episode_steps=500,
    reward_threshold=475.0,
)
