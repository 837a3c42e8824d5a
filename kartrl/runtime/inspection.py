"""Inspects the environment before a run, in a process of its own, as an emulator may crash or hang."""

from kartrl.config import Config
from kartrl.envs import describe_env
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.runtime.isolation import ProcessLost, run_isolated

LEVEL_SECONDS = 0.1  # that a level may take to begin


def inspect_env(config: Config) -> EnvSpec:
    """`kartrl.envs.describe_env`, in another process.

    Raises:
        UserError: as `describe_env`; or the environment crashed or hung.
    """
    levels = len(load_world(config).all_levels())
    try:
        spec: EnvSpec = run_isolated(describe_env, config, seconds=config.system.step_timeout + LEVEL_SECONDS * levels)
    except ProcessLost as error:
        raise UserError(f"[environment] id = {config.environment.id}: {error}") from error
    return spec
