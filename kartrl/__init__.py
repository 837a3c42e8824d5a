"""kartrl: a GA3C/IMPALA actor-learner for pixel games, above all a kart racer on the SNES.

`kartrl.train` trains, `kartrl.load_policy` loads what was trained, `kartrl.evaluate` measures it, and
`kartrl.make_env` makes its environment, from a configuration of `kartrl.read_config`. Bad input raises
`kartrl.UserError`, whose text says what to do.

Importing this registers `kartrl/Kart-v0`, `kartrl/Procgen-v0` and two small environments with Gymnasium, and loads
nothing else: each name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING

import gymnasium

if TYPE_CHECKING:
    from kartrl.config import Config
    from kartrl.envs.episode import Episode, Result
    from kartrl.errors import RunFailed, UserError
    from kartrl.library.configuration import read_config
    from kartrl.library.environments import make_env
    from kartrl.library.evaluation import evaluate
    from kartrl.library.policy import Policy, load_policy
    from kartrl.library.training import TrainingRun, train
    from kartrl.run.callbacks import Evaluation, Update

__version__ = "0.1.0"
__all__ = [
    "Config",
    "Episode",
    "Evaluation",
    "Policy",
    "Result",
    "RunFailed",
    "TrainingRun",
    "Update",
    "UserError",
    "evaluate",
    "load_policy",
    "make_env",
    "read_config",
    "train",
]
_MODULES = {  # of these names, loaded when they are used
    "kartrl.config": ("Config",),
    "kartrl.envs.episode": ("Episode", "Result"),
    "kartrl.errors": ("RunFailed", "UserError"),
    "kartrl.library.configuration": ("read_config",),
    "kartrl.library.environments": ("make_env",),
    "kartrl.library.evaluation": ("evaluate",),
    "kartrl.library.policy": ("Policy", "load_policy"),
    "kartrl.library.training": ("TrainingRun", "train"),
    "kartrl.run.callbacks": ("Evaluation", "Update"),
}

if not TYPE_CHECKING:  # to a type checker, a module with this function has every name

    def __getattr__(name):
        for module, names in _MODULES.items():
            if name in names:
                return globals().setdefault(name, getattr(importlib.import_module(module), name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


gymnasium.register("kartrl/Kart-v0", entry_point="kartrl.kart.env:KartEnv")
gymnasium.register("kartrl/Procgen-v0", entry_point="kartrl.procgen.world:ProcgenEnv")
gymnasium.register(
    "kartrl/CarRacing-v3", entry_point="kartrl.envs.games.car_racing:CarRacingEnv", reward_threshold=900.0
)
gymnasium.register("kartrl/Snake-v0", entry_point="kartrl.envs.games.snake:SnakeEnv")
gymnasium.register(
    "kartrl/MaskedCartPole-v1",
    entry_point="kartrl.envs.games.masked_cartpole:MaskedCartPoleEnv",
    max_episode_steps=500,
    reward_threshold=475.0,
)
