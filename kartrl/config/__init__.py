"""The configuration: one frozen model per INI section."""

from kartrl.config.algorithms import A2C, Algorithm, Impala
from kartrl.config.config import Config
from kartrl.config.environment import Crop, Environment, View
from kartrl.config.ini import check_override, check_own, dump, presets, read, settings
from kartrl.config.levels import Levels
from kartrl.config.sections import Evaluation, Model, Optimizer, Run, System

__all__ = [
    "A2C",
    "Algorithm",
    "Config",
    "Crop",
    "Environment",
    "Evaluation",
    "Impala",
    "Levels",
    "Model",
    "Optimizer",
    "Run",
    "System",
    "View",
    "check_override",
    "check_own",
    "dump",
    "presets",
    "read",
    "settings",
]
