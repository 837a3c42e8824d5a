"""Inspects the environment before a run, in a process of its own, as an emulator may crash or hang."""

from kartrl.config import Config
from kartrl.envs import look
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.runtime.isolation import Lost, apart

LEVEL_SECONDS = 0.1  # that a level may take to begin


def look_at(config: Config) -> EnvSpec:
    """`kartrl.envs.look`, in another process.

    Raises:
        UserError: as `look`; or the environment crashed or hung.
    """
    levels = len(load_world(config).all_levels())
    try:
        spec: EnvSpec = apart(look, config, seconds=config.system.step_timeout + LEVEL_SECONDS * levels)
    except Lost as error:
        raise UserError(f"[environment] id = {config.environment.id}: {error}") from error
    return spec
