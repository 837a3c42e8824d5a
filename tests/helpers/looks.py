"""The first look at an environment, in the process of the test."""

from kartrl.config import Config
from kartrl.envs.first_look import look
from kartrl.envs.spec import EnvSpec


def describe_env(config: Config) -> EnvSpec:
    *_, spec = look(config)
    return spec
