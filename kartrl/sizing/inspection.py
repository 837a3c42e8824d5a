"""Inspects the environment before a run, in a separate process, as an emulator may crash or hang."""

from kartrl.config import Config
from kartrl.envs import describe_env
from kartrl.envs.spec import EnvSpec
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.processes.isolation import CodeFailed, ProcessLost, run_isolated


def inspect_env(config: Config) -> EnvSpec:
    """`World.check`, then `kartrl.envs.describe_env` in another process.

    Raises:
        UserError: raised by these, or the environment's code failed, crashed or hung.
    """
    load_world(config).check()
    try:
        spec: EnvSpec = run_isolated(describe_env, config, seconds=config.system.step_timeout)
    except (CodeFailed, ProcessLost) as error:
        raise UserError(f"[environment] id = {config.environment.id}: {error}") from error
    return spec


def remarks(config: Config, spec: EnvSpec) -> list[str]:
    """What else a user should know about this configuration, one line each: ignored observations and keys."""
    name, lines = config.environment.id, []
    if spec.left_out:
        lines.append(f"{name}: the network does not see {', '.join(spec.left_out)}, which are text")
    if ignored := load_world(config).ignored_keys(spec):
        lines.append(f"{name} ignores {', '.join(ignored)}: setting them has no effect")
    return lines
