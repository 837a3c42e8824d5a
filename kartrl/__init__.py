"""kartrl: a GA3C/IMPALA actor-learner for pixel games, first of all a kart racer on the SNES.

Importing this registers `kartrl/Kart-v0` with Gymnasium, and does nothing else.
"""

import gymnasium

__version__ = "0.1.0"

gymnasium.register("kartrl/Kart-v0", entry_point="kartrl.kart.env:KartEnv")
